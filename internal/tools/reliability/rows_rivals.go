package main

// rivalRows: several processes work on one bucket.
func rivalRows() []row {
	frozen := goTest("^TestASyncThatWakesUpHarmsNobody$", "./internal/e2e")
	anywhere := goTest("^TestAnyRequestOfAFrozenRun$", "./internal/e2e")
	folder := goTest("^TestASyncThatSleepsAnywhereInAFolder$", "./internal/e2e")
	race := goTest("^TestTwoWritersLoseNoUpdate$", "./internal/e2e")
	return []row{
		{
			id: "rivals", unit: "processes", goal: 100, command: goTest("^TestProcessesAtOnceShareABucket$", "./internal/e2e"),
			what: "2 and 8 processes that sync one bucket at the same moment, on five kinds of stores: all ended well, and shared the downloads",
		},
		{
			id: "frozen-sync", unit: "frozen runs", goal: 35, command: frozen,
			what: "syncs stopped before a commit, a pointer move and other writes until their leases were over and others had synced, rolled back, approved or pruned, then woken up",
		},
		{id: "frozen-anywhere-sync", what: "the same at any request of a sync", unit: "frozen runs", goal: 20, command: anywhere},
		{id: "frozen-anywhere-prune", what: "prunes stopped at any request while others synced, rolled back and approved", unit: "frozen runs", goal: 15, command: anywhere},
		{id: "frozen-local", what: "syncs stopped at random moments over a folder while another went by", unit: "frozen runs", goal: 40, command: folder},
		{id: "race-local", what: "rounds of two writers that swap one pointer at the same moment in a folder: no update lost", unit: "race rounds", goal: 1000, command: race},
		{id: "race-versitygw", what: "the same on versitygw", unit: "race rounds", goal: 1000, command: race},
		{id: "race-seaweedfs", what: "the same on SeaweedFS", unit: "race rounds", goal: 1000, command: race},
		{id: "race-gcs", what: "the same on a server of Google Cloud Storage's protocol", unit: "race rounds", goal: 1000, command: race},
		{id: "race-azure", what: "the same on azurite", unit: "race rounds", goal: 1000, command: race},
	}
}
