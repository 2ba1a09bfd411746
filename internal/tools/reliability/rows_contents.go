package main

// contentRows: what stands inside the Parquet files.
func contentRows() []row {
	rows := func(run string) command { return goTest(run, "./internal/audit/rows") }
	return []row{
		{
			id: "rows-honest", what: "versions of four kinds of datasets with every kind of change, in each form that the feed's documentation leaves open: their rows hold, and the changes of each that has some lead to its snapshot",
			unit: "versions", goal: 200, command: goTest("^TestRowsOfEveryKindOfVersionHold$", "./mirror"),
		},
		{
			id: "rows-lies", what: "versions whose contents contradict each other under a manifest that holds (a changed value, a lost delete, a missing upsert, an id twice, wrong envelope, counts, types and id maps): each named by the program with version, records and columns",
			unit: "lies", goal: 14, command: goTest("^TestContentsThatContradictEachOtherAreFound$", "./internal/e2e"),
		},
		{
			id: "rows-hostile", what: "Parquet files that would make a decoder hang, crash or take all memory (sizes that swell, runs and lengths without end, dictionaries that loop, negative counts, encryption, cut and lying footers), and real files of other writers: each a finding, in bounded time and memory",
			unit: "files", goal: 70, command: rows("^(TestFilesThatWouldHarmADecoderAreFindings|TestRealFilesThatAreNoVersionAreFindings)$"),
		},
	}
}
