// Package records makes the contents of a simulated dataset: columns, rows, edits between two versions, and the
// GeoParquet, PDF and geometry bytes that carry them. It is pure: the same seed gives the same bytes, and nothing here
// reads a clock, a file or the network. It must not know about versions' numbering, links or HTTP.
package records
