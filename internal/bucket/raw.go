package bucket

import "context"

// RawCreator is what a store implements beside Store so that Probe can learn whether the store
// itself compares bytes with the checksum that comes with them. Nothing else may use it.
type RawCreator interface {
	// CreateRaw sends the bytes of sent to a free key, but announces the checksums of announced,
	// which has the same length. It checks nothing itself. A store that compares answers with an
	// error and keeps nothing.
	CreateRaw(ctx context.Context, key string, sent, announced []byte) error
}
