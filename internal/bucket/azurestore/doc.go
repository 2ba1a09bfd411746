// Package azurestore keeps objects as block blobs in an Azure Blob Storage container.
//
// What writes it. An object of up to 8 MiB is read into a buffer of its own size, verified, and
// sent in one Put Blob that carries its MD5. A greater one goes as blocks of 8 MiB, each with its
// MD5, out of one buffer; the list of blocks, which alone makes the blob visible, is committed
// only after the sha256 of the whole agreed. The service compares each MD5 with what it received
// and refuses the request otherwise. MD5 rather than CRC64 because every implementation checks it.
// Blocks that were never committed are not listed and cannot be read; there is no call that
// removes them, the service does so after a week. Their names are random for each attempt: two
// writers of one key would otherwise fill each other's blocks.
//
// What decides races. A create is sent with If-None-Match: *, a swap and a delete with If-Match;
// the ETag is the Tag, and the service never gives one twice. Of two writers that stage blocks of
// one key, the first commit wins and discards the blocks of the other.
//
// What the service attests. It keeps an MD5 for blobs that came in one Put Blob, and none for
// blobs committed from blocks: there it would only repeat what we claimed. So Info.Checksum is
// there for small objects only and Guarantees.Attests is empty.
//
// gocloud.dev is not used: its azureblob driver stores keys that hold %, #, ? or a quote under
// other names (__0x25__), and rewrites such names when it lists. A bucket must be readable under
// the names that its documents give.
//
// Listings start at a name where the service supports it (version 2026-02-06 and later). Others
// ignore the wish and list from the beginning of the prefix; what comes before is dropped here, so
// that the answer is the same at the cost of the pages in between (5,000 names each). An account
// with a hierarchical namespace lists folders in another order than bytes; where that shows, the
// listing ends with an error instead of leaving something out.
//
// What azurite does otherwise than the service (tests stand on it): it ignores startFrom and any
// CRC64, and answers a wrong MD5 with 400 InvalidOperation where the service says Md5Mismatch; so
// wrong bytes are refused, but not named as such. Its If-None-Match: * takes blocks that were
// staged and never committed for a blob; whether the service does is not documented, so a create
// that meets something which cannot be read sends its bytes as blocks.
package azurestore
