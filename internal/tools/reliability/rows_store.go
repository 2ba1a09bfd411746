package main

// storeRows: the bucket refuses, lies and fills up.
func storeRows() []row {
	service := goTest("^(TestServiceFaults|TestCredentialsRotate|TestClocksThatDiffer|TestFramingIsFound|TestAProbeOfASlowService)$", "./internal/bucket/s3store")
	passes := goTest("^(TestAPassMeetsOneBadAnswer|TestAPassMeetsAFaultyS3Service|TestAPassMeetsFramingThatIsKept|TestPruneMeetsDeniedDeletes)$", "./mirror")
	disk := goTest("^(TestEveryStepFails|TestAFileSystemWithoutHardLinks|TestAnotherMount|TestLongNames|TestTheFolderGoesInMidRun)$", "./internal/bucket/localstore")
	disks := goTest("^(TestAPassMeetsAFailingDisk|TestAPassMeetsAFolderThatCannotBeUsed)$", "./mirror")
	cloud := goTest("^TestAPassMeetsFaultsOfCloudStores$", "./internal/e2e")
	return []row{
		{
			id: "s3-faults", unit: "faults", goal: 100, command: service,
			what: "faults of an S3 service met by the adapter: errors inside of a 200, writes stored but answered 503 or not at all, framing kept, denied deletes and aborts, keys that rotate, clocks that differ, redirects, pages of proxies, lists that prove nothing",
		},
		{
			id: "s3-faults-sync", unit: "passes", goal: 130, command: passes,
			what: "the same and each kind of bad answer at each kind of object met by a whole pass: the right exit code, nothing untrue in the bucket, and the next pass ended the work",
		},
		{id: "gcs-faults", what: "faults of Cloud Storage met by the adapter", unit: "faults", goal: 30, command: goTest("^TestServiceFaults$", "./internal/bucket/gcsstore")},
		{id: "gcs-faults-sync", what: "faults of Cloud Storage met by the program", unit: "passes", goal: 7, command: cloud},
		{id: "azure-faults", what: "faults of Blob Storage met by the adapter", unit: "faults", goal: 30, command: goTest("^TestServiceFaults$", "./internal/bucket/azurestore")},
		{id: "azure-faults-sync", what: "faults of Blob Storage met by the program", unit: "passes", goal: 7, command: cloud},
		{
			id: "local-faults", unit: "failed steps", goal: 600, command: disk,
			what: "every change to the file system made to fail during every kind of write (no space, no quota, I/O error, read-only, denied), and folders that go, links that lead out, long names",
		},
		{
			id: "local-faults-sync", unit: "passes", goal: 250, command: disks,
			what: "passes whose disk failed at one change to the file system, at every one in turn, or from there on: nothing untrue in the folder, and the next pass ended the work",
		},
	}
}
