package main

import "time"

// fuzzSoakRows: random inputs, and everything at once for a while.
func fuzzSoakRows() []row {
	return []row{
		{
			id: "fuzz", what: "fuzz targets that ran 2 minutes each without a finding; interesting inputs are kept",
			unit: "fuzz targets", goal: 26, command: command{program: "scripts/fuzz", args: []string{"2m"}, short: []string{"1s"}}, limit: 2 * time.Hour,
		},
		{
			id: "soak", what: "checks of the published pointer and what it names, while several processes work on one bucket and every side fails at random, for 10 minutes",
			unit: "reader checks", goal: 1000, command: goTest("^TestSoak$", "./internal/soak"), limit: 25 * time.Minute,
		},
	}
}
