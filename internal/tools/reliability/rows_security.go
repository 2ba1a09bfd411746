package main

// securityRows: who sees the key, where links may lead, what strings may do.
func securityRows() []row {
	return []row{
		{
			id: "key-origin", what: "redirects of every call of the API to another port, host or scheme, with users, dots and upper case: the key goes nowhere",
			unit: "redirects", goal: 300, command: goTest("^TestTheKeyFollowsNoRedirect$", "./internal/feed"),
		},
		{
			id: "links-guard", what: "addresses, hosts behind a proxy and redirects that signed links may or may not lead to",
			unit: "targets", goal: 100, command: goTest("^(TestGuardedAddresses|TestHostsBehindAProxy|TestRedirectsPassTheGuard)$", "./internal/transfer"),
		},
		{
			id: "redaction", what: "the program at its most verbose level under every fault of the source: no key and no signature in output, reports or bucket",
			unit: "faults", goal: 180, command: goTest("^TestNoFaultMakesASecretTold$", "./internal/e2e"),
		},
		{
			id: "injection-strings", what: "hostile texts (line breaks, escape sequences, bidi, NUL, no UTF-8, formulas, markup, 64 KiB) in every place of the feed and as keys in the bucket, through whole passes and all commands: no terminal steered, no line forged, JSON stays JSON",
			unit: "hostile texts", goal: 200, command: goTest("^TestTextsOfOthersSteerNothing$", "./cmd/mirror"),
		},
	}
}
