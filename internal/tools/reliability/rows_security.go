package main

// securityRows: who sees the key, where links may lead, what strings may do.
func securityRows() []row {
	return []row{}
}
