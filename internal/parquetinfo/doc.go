// Package parquetinfo reads the footers of Parquet files that others wrote: rows and column
// types, to compare the parts of a version with each other and with what the feed says of them.
//
// It is the one place that hands foreign bytes to the Parquet library's footer decoder, which
// allocates what a footer claims and panics on some that are broken. A footer is therefore
// bounded and walked here first. It reads no pages, knows no buckets and judges no bytes: what it
// finds are doubts about content, never corruption.
package parquetinfo
