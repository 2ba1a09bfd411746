// Package localstore keeps a bucket in a folder. Keys are paths below the root; two folders of
// its own, _mirror/tmp (staging files) and _mirror/locks, are never listed.
//
// A write goes to a staging file that its writer holds under flock, is flushed to disk, and is
// then hard-linked to its key: link fails when the name is taken, between processes too, which
// Stat and rename do not. Every folder that got a new entry is flushed as well, so that a key
// that was reported as written survives a power cut. Documents are replaced by comparing and
// renaming under a lock file.
//
// A folder attests nothing: a checksum of a file costs a read of it. What was verified is the
// stream that was written; Stat tells the size only. The tag of a document is the hash of its
// content; the tag of data (no write permission) or of anything large is size, time of change
// and inode, which is cheap and changes with every write of ours.
//
// Files and folders are closed to the world: folders have 0750, data 0440, documents 0640, staging
// files 0600, and the umask can take more away from folders. Readers under another user get in by
// the group, with setgid on the root, or by an ACL. The root itself keeps what it has.
//
// It follows no symbolic links below the root and knows nothing of versions or records.
package localstore
