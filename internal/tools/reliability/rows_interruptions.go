package main

// interruptionRows: the mirror is stopped at a chosen moment, from inside and from outside.
func interruptionRows() []row {
	return []row{}
}
