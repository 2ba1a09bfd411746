// Package s3store keeps a bucket in Amazon S3 or a compatible service.
//
// Data up to 1 GiB is one plain, streamed PUT: Content-Length, the sha256 of the file as the
// signed payload hash and as x-amz-checksum-sha256, If-None-Match. The store itself refuses wrong
// bytes, nothing is buffered and nothing is hashed twice. Greater objects go in parts, each with
// its own payload hash, under a CRC64NVME of the whole where the service takes one; the upload is
// completed only after the whole sha256 agreed, and aborted on every failure.
//
// Everything goes through aws-sdk-go-v2, reads and lists too. gocloud's s3blob was considered for
// those and left out: its listing unescapes keys (a key that holds "__0x2f__" comes back as
// another key) and ends without an error when the service says "truncated" and gives no token; its
// reader reports an answer without Content-Length as an object of size 0; and it brings the
// transfer manager, which had a checksum switch of its own that the client's did not reach. What
// the port asks for (tag, checksums, class, encoding) lies in the SDK's answers anyway.
//
// The SDK's own retries are off: package bucket has the one retry layer, which this package also
// asks when a part of a large object has to be sent again. It knows nothing of versions or
// records.
package s3store
