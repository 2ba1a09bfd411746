package main

// securityRows: who sees the key, where links may lead, what strings may do.
func securityRows() []row {
	return []row{
		{
			id: "injection-strings", what: "hostile texts (line breaks, escape sequences, bidi, NUL, no UTF-8, formulas, markup, 64 KiB) in every place of the feed and as keys in the bucket, through whole passes and all commands: no terminal steered, no line forged, JSON stays JSON",
			unit: "hostile texts", goal: 200, command: goTest("^TestTextsOfOthersSteerNothing$", "./cmd/mirror"),
		},
	}
}
