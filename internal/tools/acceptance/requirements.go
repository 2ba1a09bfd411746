package main

// requirements are the lines of the table, in our own words.
func requirements() []line {
	return []line{
		{number: "1", needsClone: true, run: freshDemo, title: "In a fresh clone `make demo` does all its set-up itself: under 6 minutes without any cache, under one minute once built"},
		{number: "1t", needsClone: true, needsTest: true, run: freshTest, title: "In a fresh clone `make test` does all its set-up itself and passes: within 25 minutes without any cache, within 10 once its tools are built"},
		{number: "2", run: links, title: "Links live 5 s; 300 files take 40 s and one download stalls in mid-file: exit 0, each finished file fetched once, the version read once, fresh links only from /links, no name signed more than twice"},
		{number: "3", run: idle, title: "A pass without news: one feed request, two bucket reads, at most one write, no list, under 100 ms"},
		{number: "4", run: copies, title: "A bucket copied elsewhere by any tool verifies byte by byte and goes on without downloading what it holds; a newer layout is refused with 2 and nothing is written"},
		{number: "5", run: bulk, title: "20,000 attachments of 2 KiB and 8 parts of 256 MiB, into a folder and into versitygw: at most 120 MiB of anonymous memory, no file fetched twice, /links called at most once per 200 names and once a version"},
		{number: "6", run: wire, title: "On S3 every PUT of data up to 1 GiB carries Content-Length and the file's sha256 in x-amz-content-sha256 and x-amz-checksum-sha256, and no x-amz-trailer; versitygw and SeaweedFS refuse wrong bytes themselves"},
		{number: "7", run: realParquet, title: "Real Parquet files of several writers travel byte for byte"},
		{number: "8", run: terminated, title: "SIGTERM in mid-run: exit 143 within 10 s, state saved, and the next pass finishes without fetching a finished file again"},
		{number: "9a", run: badSettings, title: "Bad key 4 within two requests; bad flag, YAML key, scheme and glob 2, all told at once; bucket missing or denied 5 before any download"},
		{number: "9b", run: garbage, title: "Garbage for the list of datasets 4, for a dataset 1; wrong, short or long files 1 after another try with a fresh link; a bad id and an empty list 1; nothing is lost, and the next pass heals it"},
		{number: "9c", run: manifests, title: "A manifest that contradicts its version or names impossible hashes, sizes or paths fails its dataset only: 1, nothing is lost, and the next pass heals it"},
		{number: "9d", run: goTests, title: "The repository's own tests of bad input pass"},
		{number: "10", run: largeFolder, title: "One original of 6 GiB into a folder; the same with its last byte flipped leaves nothing, no object and no staging file"},
		{number: "11", run: largeS3, title: "One original of 6 GiB through versitygw, in parts; the same with its last byte flipped leaves nothing, no object, no open upload and no part on disk"},
		{number: "12", run: tried(300, true, "interruptions-*"), title: "A pass, a decision or a prune that is stopped at any write, before it, in it, after it, or after it with the answer lost: every promise holds at once, and the next run ends as if nothing had been; at least 300 points"},
		{number: "13", run: tried(200, false, "kills-local"), title: "The program killed at 200 random moments over a folder: every promise holds, nothing finished is fetched again"},
		{number: "14", run: tried(50, false, "kills-versitygw"), title: "The same at 50 moments over a real S3 server"},
		{number: "15", run: tried(1000, false, "race-local", "race-versitygw", "race-seaweedfs", "race-gcs", "race-azure"), title: "1,000 rounds of two writers that race for one pointer, on each store, with no lost update"},
		{number: "16", run: tried(26, false, "fuzz"), title: "Every fuzz target runs 2 minutes without a finding; the corpus is kept"},
		{number: "17", run: tried(1000, false, "soak"), title: "10 minutes of several processes on one bucket while every side fails at random: a reader that checks the published pointer all the time sees no violation"},
		{number: "18", run: replay, title: "verify --level rows of a snapshot of 5 million rows with changes of 2 %: the replay takes at most 3 times as long as parquet-go needs to decode both snapshots and the changes, and the process has at most 512 MiB of anonymous memory"},
		{number: "19", run: tried(3, false, "tables-cost"), title: "Publishing adds at most 4 bucket writes for each dataset and version, checkpoints aside, and opens no part once more"},
		{number: "20", run: readers, title: "DuckDB, ClickHouse, deltalake, Polars, Spark and Trino read the published rows, every older version, the changes since a date, attachments, joins, publications and geometries rightly, by the statements that the program prints; " +
			"while a writer switches the version 100 times readers see whole versions only; a log of 5,000 versions opens within 1 s of a log of one; Hive's parser takes the script for Athena"},
		{number: "21", run: tried(50, false, "rows-hostile"), title: "Real files, and files that are cut, encrypted, with a lying footer or hostile pages, never crash or hang the audit: each is a finding"},
		{number: "22", run: tried(10, false, "rows-lies"), title: "A lie in the contents of a version is found and named by the program, with the records and columns that it is about"},
	}
}
