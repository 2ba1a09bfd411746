package feedsim

// bulkSource is what a bulk dataset's files are generated from.
type bulkSource struct{}
