package main

// feedRows: the API's answers are hostile.
func feedRows() []row {
	return []row{}
}
