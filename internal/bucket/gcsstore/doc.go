// Package gcsstore keeps objects in Google Cloud Storage.
//
// What writes it. An object of up to 8 MiB is read into a buffer of its own size, verified, and
// sent in one request that names its CRC32C; a greater one streams through a resumable session in
// chunks of 8 MiB, and its CRC32C, computed on the way, goes with the finishing request
// (X-Goog-Hash). Either way Cloud Storage compares before it makes the object visible. A body that
// turns out wrong cancels the request or the session before its end: closing the SDK's writer
// would commit what was written so far.
//
// What decides races. A create is sent with ifGenerationMatch=0, a swap and a delete with the
// generation that was seen; the generation is the Tag and never repeats.
//
// gocloud.dev is not used. Its listings sort each page by names in which __0x2f__ and the like have
// been rewritten, so that the order of keys breaks where a key holds such text, and cannot name the
// project that pays. Its reads unpack objects stored with Content-Encoding gzip and, like the SDK's
// reader below it, ask again for the rest of a broken body without a bound, out of sight of the
// layer that counts attempts. Its writes cannot name a generation to replace, and Close commits
// them. Listings, attributes and writes are the SDK's; a read is one plain GET of the JSON API,
// never unpacked, whose generation is told to the caller.
//
// Requests are sent once and repeated by bucket.WithRetry, with one exception: a chunk inside a
// resumable session is sent again by the SDK for up to 32 seconds, since the session knows what it
// has and the object would otherwise have to be sent from its start.
//
// What fake-gcs-server does otherwise than the service (tests stand on it): it does not look at
// X-Goog-Hash, and forgets the CRC32C of a session after its first chunk, so that it would accept
// a chunked upload that was changed on the way; and it ignores the generation that a delete names.
// The tests put a server in front of it that does both as the service does, and one test each
// shows that the fake alone does not.
package gcsstore
