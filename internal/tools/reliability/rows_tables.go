package main

// tableRows: the Delta logs that query engines read.
func tableRows() []row {
	mirror := func(run string) command { return goTest(run, "./mirror") }
	return []row{
		{
			id: "routes", what: "ways of a consumer between any two versions of random chains (MAJOR, replaced ids, forks, versions that are gone, lost, in doubt or pruned), walked by a model that keeps rows and ids: they led to the rows of the snapshot and to the same records, and none was longer than it must be",
			unit: "ways", goal: 100_000, command: goTest("^TestARouteLeadsToTheRightRowsOnEveryChain$", "./manifest"),
		},
		{
			id: "tables-cost", what: "versions that a pass published for three datasets: tables added at most 4 writes each, and no part was opened once more than without them",
			unit: "versions", goal: 3, command: mirror("^TestTablesCostFewWritesAndReadNoPart$"),
		},
		{
			id: "table-damage", what: "ways in which a table's log went wrong (gaps, cut, emptied and foreign commits, wrong files, sizes, partitions and statistics, checkpoints and hints that lead nowhere, lost rows): each was found and named by the audit of documents, and a rebuild mended it",
			unit: "damages", goal: 40, command: mirror("^TestDamageOfATableIsFoundNamedAndMended$"),
		},
		{
			id: "checkpoint-disagrees", what: "checkpoints that said otherwise than their commits: each was found",
			unit: "damages", goal: 10, command: goTest("^TestACheckpointIsHeldAgainstTheCommits$", "./internal/tables"),
		},
		{
			id: "rebuild-readers", what: "readings of a log, one after each delete of a rebuild: an older state of the table or none, never a mixture",
			unit: "readings", goal: 40, command: mirror("^TestReadersBesideARebuildSeeWholeStates$"),
		},
		{
			id: "rebuild-beside-pass", what: "requests of a rebuild before which a whole pass with a new release ran: the tables were right, or the rebuild said that it must be run again and then went through",
			unit: "freezes", goal: 90, command: mirror("^TestARebuildBesideAPassEndsRightOrSaysSo$"),
		},
		{
			id: "rebuild-killed", what: "writes and deletes of a rebuild at which it died; the next one mended everything",
			unit: "interruption points", goal: 18, command: mirror("^TestARebuildThatDiesIsRunAgain$"),
		},
	}
}
