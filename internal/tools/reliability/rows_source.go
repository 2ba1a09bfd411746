package main

// sourceRows: the links and the network lie, stall and break.
func sourceRows() []row {
	passes := goTest("^(TestEveryFaultOfTheSource|TestHTTP2ConnectionsThatAreRetired)$", "./internal/resilience")
	return []row{
		{
			id: "source-faults", what: "faults of downloads, of the call for links and of every call of the API, each in a whole pass: expiry, drops, flips, truncation, ranges, encodings, redirects, silence, drips, Retry-After, retired HTTP/2 connections; recovered from, or ended cleanly after an exact number of requests; then healed by the next pass",
			unit: "faults", goal: 800, command: passes,
		},
		{
			id: "network-toxics", what: "networks that delay, narrow, slice, cut, reset or swallow connections to the API and to the links host, in both directions",
			unit: "faults", goal: 100, command: goTest("^TestFeedBehindToxics$", "./internal/resilience"),
		},
		{
			id: "network-toxics-bucket", what: "the same networks before a real S3 server, in both directions",
			unit: "faults", goal: 50, command: goTest("^TestBucketBehindToxics$", "./internal/resilience"),
		},
		{
			id: "slow-but-even", what: "64 MiB over 100 s at an even rate are fetched in one request; a drip below the least rate is left",
			unit: "downloads", goal: 2, command: goTest("^(TestSlowButEvenIsFine|TestADripIsNotFine)$", "./internal/resilience"),
		},
	}
}
