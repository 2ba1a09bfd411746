// Package testservers starts real object servers for tests, each at most once in a test binary:
// versitygw, SeaweedFS and azurite as processes of their own on free ports of the loopback
// address, fake-gcs-server in the test's own process. Trino, a query engine over what they store, is
// started the same way. It is imported from _test.go files only and
// is no part of the shipped program.
//
//	var servers = testservers.New()
//
//	func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }
//
//	func TestStore(t *testing.T) {
//		server := servers.VersityGW(t)
//		bucket := server.NewBucket(t)
//		...
//	}
//
// The programs stand in .tools/bin of the checkout, where `make tools` puts them. One that is
// missing fails the test; nothing is skipped. A server counts as started when it stored and
// returned an object, not when its port is open. When tests fail, the servers' logs stay and Run
// says where; their data never stays. A server that ends by itself fails the run.
//
// # What each server really does
//
// Each line is proven by a test of this package.
//
// versitygw and SeaweedFS, by S3 requests as they go over the wire:
//   - A wrong x-amz-content-sha256, x-amz-checksum-sha256 or Content-MD5 gets 400, a wrong signature
//     403. Nothing is stored, and an object that stood stays as it was.
//   - If-None-Match: * is atomic: one winner of 16, the others get 412 (or 409), and so does a late one.
//   - If-Match is atomic too: one winner of 16; a stale tag gets 412, a key that holds nothing 404.
//   - DELETE with a stale If-Match gets 412 and deletes nothing.
//   - A sha256 that came with a PUT is told by HEAD with x-amz-checksum-mode: ENABLED; one that did
//     not come is not made up.
//   - A part with wrong bytes gets 400; If-None-Match: * holds on CompleteMultipartUpload.
//
// SeaweedFS takes about 11 s until it stores its first object, since its parts must find each other,
// and writers that meet on one key wait for each other in steps of a second: a race of 16 takes up
// to 8 s. versitygw starts at once; it needs a file system with extended attributes for TMPDIR.
//
// azurite: If-None-Match: * is atomic and refuses with 409 (BlobAlreadyExists), not 412; If-Match is
// atomic and refuses with 412, also where nothing stands; a stale DELETE gets 412; a wrong MD5 gets 400
// and stores nothing; the MD5 of a blob stored in one request is kept and told.
//
// fake-gcs-server: ifGenerationMatch is atomic for uploads in one request and for resumable ones and
// refuses with 412; a wrong CRC32C or MD5 gets 400 and stores nothing; the CRC32C is told. It ignores
// ifGenerationMatch on DELETE, unlike the real service: it proves nothing about conditional deletes.
// It asks for no credentials and keeps objects in the memory of the test.
package testservers
