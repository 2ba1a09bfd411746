// Package attachments owns what a version's attachments need: whether the version's answer and
// its manifest agree about them, which bytes are held already, which are missing, and the index
// that joins their names to the objects.
//
// A version can name a million attachments, so nothing here keeps a name as text: names and facts
// are kept as hashes in tables that never grow by doubling. About 26.4 bytes are kept for a name
// (Names) and 35.7 bytes for a distinct hash (Wanted). Who needs a name or a size again streams
// the manifest again.
//
// It decides nothing about versions, fetches nothing from the feed and writes no object itself.
package attachments
