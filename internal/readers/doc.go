// Package readers proves with real query engines that they read what the mirror published: each row of
// each version, through the tables and by the statements that `mirror ddl` prints.
//
// It holds tests alone, behind the build tag "readers", since they need engines that `make test-readers`
// installs; a test that lacks its engine fails. A story of a simulated feed is mirrored by the real
// program into a folder and onto a real S3 server. What engines must answer is read from the Parquet
// files that the records name, by parquet-go, never from a Delta log. Each engine is a small program
// below engines/, which answers questions as JSON and knows none of the answers.
package readers
