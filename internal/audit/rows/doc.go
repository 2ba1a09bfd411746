// Package rows audits what stands inside the Parquet files of a version: row counts, the envelope
// columns, record ids, the id map, and whether the changes that the feed published really lead from the
// previous snapshot to this one.
//
// It sees local copies of files whose bytes were verified, and judges their contents alone: it knows no
// bucket, no record format and no feed, and writes nothing but temporary files. Rows are reduced to two
// hashes of 64 bits, seeded anew in each process; a mismatch is looked up again by its real record id
// before it is reported, so that a collision can hide one with a chance of 2^-64 and never invent one.
// Memory is bounded by a budget: what does not fit is partitioned by record id into temporary files.
package rows
