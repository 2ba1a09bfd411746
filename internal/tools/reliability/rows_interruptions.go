package main

// interruptionRows: the mirror is stopped at a chosen moment, from inside and from outside.
func interruptionRows() []row {
	kills := goTest("^(TestKillsAtRandomMomentsLoseNothing|TestTerminationsAtRandomMoments)$", "./internal/e2e")
	points := goTest("^(TestEveryInterruptionPoint|TestInterruptionsOfManyWritesAtOnce|TestInterruptionsOnTheWireToS3)$", "./mirror")
	return []row{
		{
			id: "interruptions-before", unit: "interruptions", goal: 300, command: points,
			what: "every write of a bucket's life (passes, approvals, a rollback, a prune; parts, id map, held MAJOR, withdrawn and rebuilt): stopped before it; every promise held at once, and the next pass ended with the bucket of an undisturbed run and fetched nothing that stood",
		},
		{id: "interruptions-after", what: "the same, stopped after the write", unit: "interruptions", goal: 300, command: points},
		{id: "interruptions-answer-lost", what: "the same, stopped after the write with its answer lost", unit: "interruptions", goal: 300, command: points},
		{id: "interruptions-mid-write", what: "the same, stopped in the middle of the body of a write", unit: "interruptions", goal: 150, command: points},
		{id: "interruptions-answer-lost-alive", what: "the same, the answer lost and the process alive: it ended well, and fetched nothing twice", unit: "interruptions", goal: 300, command: points},
		{id: "interruptions-side-by-side", what: "the same in all five ways, with datasets and files side by side", unit: "interruptions", goal: 300, command: points},
		{id: "interruptions-s3", what: "the same in all five ways over S3, at the writes on the wire: puts, deletes, and the beginnings, parts and completions of uploads in parts", unit: "interruptions", goal: 300, command: points},
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
