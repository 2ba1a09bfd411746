package records

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// NewRandom returns a source of numbers that depends on the seed and the labels alone, so that one dataset or release
// does not disturb another.
func NewRandom(seed int64, labels ...any) *rand.Rand {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %v", seed, labels))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])))
}

// recordID draws a record id.
func recordID(random *rand.Rand) string {
	return fmt.Sprintf("rec_%016x", random.Uint64())
}

// sha256Hex returns the digest of b as 64 hex digits.
func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
