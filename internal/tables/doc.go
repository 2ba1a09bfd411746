// Package tables shows a bucket to query engines as Delta tables: one for each dataset's published
// snapshot, one for each dataset's attachments, one for all changes, one for all moves of pointers. It
// maps Parquet footers to table types and owns the logs below _delta_log/.
//
// A log is a projection: it is computed from pointers and records, never from itself alone, and can be
// written anew from them. A log is never read to decide what is published, and a version that cannot be
// mapped is mirrored and published without a table. Commits are put if absent and never overwritten;
// of a log's files only _last_checkpoint is. It moves no pointers, copies no data and knows no feed.
package tables
