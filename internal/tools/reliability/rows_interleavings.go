package main

// interleavingRows: processes over one bucket, in every order of their requests.
func interleavingRows() []row {
	state := goTest("^TestInterleavings", "./state")
	commands := goTest("^TestInterleavings", "./internal/interleavings")
	return []row{
		{
			id: "interleavings-commit", unit: "schedules", goal: 60_000, command: state,
			what: "two processes that copy, commit and publish the same version, or one a version ahead: all interleavings of their requests, each schedule run to its end or to a state met before; " +
				"those of one change of process with a crash and a restart, and with a lost answer, at every place; three processes with two changes. " +
				"Every promise held at every state, and no process failed of its own retry",
		},
		{
			id: "interleavings-pointer", unit: "schedules", goal: 1000, command: state,
			what: "the same of two and three processes that move one pointer, while a version is withdrawn",
		},
		{
			id: "interleavings-leases", unit: "schedules", goal: 10_000, command: commands,
			what: "two passes that share a lease, with time that passes while one of them is frozen before any of its requests",
		},
		{
			id: "interleavings-decisions", unit: "schedules", goal: 8000, command: commands,
			what: "a pass against an approval, a rollback and a retirement, and these against each other: all interleavings; one of two dying before any request. " +
				"The next pass left the pointer where the last decision that stands leads",
		},
		{
			id: "interleavings-prune", unit: "schedules", goal: 10_000, command: commands,
			what: "a prune against a pass that needs again what is pruned, a rollback, an approval and another prune, and a clearing against the pass that goes on with the version: " +
				"all interleavings of at most three changes of process. Nothing needed was deleted",
		},
		{
			id: "interleavings-tables", unit: "schedules", goal: 500, command: commands,
			what: "who writes a table against who leads readers back, once and twice, also to what the table shows already: all interleavings; two who write the publications. " +
				"No table was ahead of its pointer, and each ended where it leads",
		},
	}
}
