package main

// pruneAuditRows: deleting, auditing and repairing.
func pruneAuditRows() []row {
	mirror := func(run string) command { return goTest(run, "./mirror") }
	return []row{
		{
			id: "prune-frozen", what: "requests before which a prune was frozen while passes and other prunes ran to their end, over two datasets that share documents; then it was woken up",
			unit: "freezes", goal: 200, command: mirror("^TestAPruneThatSleepsHarmsNothing$"),
		},
		{
			id: "sync-frozen", what: "requests before which a pass was frozen while a prune ran to its end or died; then it was woken up",
			unit: "freezes", goal: 150, command: mirror("^TestAPassThatSleepsThroughAPruneLosesNothing$"),
		},
		{
			id: "rollback-frozen", what: "requests before which a rollback was frozen while a prune came to one of its writes",
			unit: "freezes", goal: 40, command: mirror("^TestARollbackAndAPruneNeverLeadReadersToDeletedFiles$"),
		},
		{
			id: "prune-interruptions", what: "writes of a prune or a clearing at which it died, three ways each; --resume finished it",
			unit: "interruption points", goal: 60, command: mirror("^(TestAPruneThatDiesAtAnyWriteIsFinishedByTheNext|TestAClearingThatDiesAtAnyWriteIsFinishedByTheNext)$"),
		},
		{
			id: "prune-loop", what: "rounds of passes beside three prunes that take over from each other, over versions whose shared documents come and go",
			unit: "rounds", goal: 100, command: mirror("^TestPrunesInALoopBesideAPass$"),
		},
		{
			id: "ledger-runs", what: "runs of an audit with a budget, in shards, while versions arrive, and two at once: every object was read exactly once (two at once: at least)",
			unit: "audits", goal: 60, command: mirror("^(TestRunsWithABudgetReadEveryObjectOnce|TestTwoAuditsAtOnceLeaveNothingOut)$"),
		},
		{
			id: "audit-classes", what: "objects and documents that were made sick in one way (403, 503, archived, short, flipped, missing), audited at each level and repaired: each called by its class, nothing sound accused or replaced",
			unit: "audits", goal: 500, command: mirror("^(TestAnAuditTellsClassesApart|TestADocumentThatCannotBeReadEndsNoAudit|TestARepairTellsClassesApart)$"),
		},
		{
			id: "audit-beside-prune", what: "requests of an audit before which a whole prune ran: nothing was called missing",
			unit: "freezes", goal: 30, command: mirror("^TestAnAuditBesideAPruneAccusesNobody$"),
		},
		{
			id: "repair-interruptions", what: "writes of a repair of eight wounds at which it died, four ways each; the next one finished it",
			unit: "interruption points", goal: 40, command: mirror("^TestARepairThatDiesAtAnyWriteIsFinishedByTheNext$"),
		},
	}
}
