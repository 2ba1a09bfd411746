package main

// interruptionRows: the mirror is stopped at a chosen moment, from inside and from outside.
func interruptionRows() []row {
	kills := goTest("^(TestKillsAtRandomMomentsLoseNothing|TestTerminationsAtRandomMoments)$", "./internal/e2e")
	return []row{
		{
			id: "kills-local", unit: "kills", goal: 200, command: kills,
			what: "runs of the program (sync, approve, prune) killed at random moments, over a folder: every promise held at once, the next runs fetched nothing that stood and ended well",
		},
		{id: "kills-versitygw", what: "the same over a real S3 server", unit: "kills", goal: 50, command: kills},
		{id: "kills-weak-locking", what: "the same over a store that ignores conditional writes, with one writer", unit: "kills", goal: 20, command: kills},
		{
			id: "terminations", unit: "SIGTERMs", goal: 30, command: kills,
			what: "syncs that got SIGTERM at random moments: ended with 143 within 10 s, leases given back",
		},
	}
}
