package main

// storeRows: the bucket refuses, lies and fills up.
func storeRows() []row {
	return []row{}
}
