// Package transfer moves files from signed links to keys: it asks for links just ahead of need,
// resumes broken connections, verifies while streaming and leaves the write itself to the bucket.
// One Engine serves all datasets of a pass and shares its workers among them.
//
// It is the one place that retries a download, and it counts the tries of a file. It decides
// nothing about versions, never sees a record or a pointer, and lets no link's query out: not in
// an error, not in a hook.
package transfer
