package rows

import (
	"hash/maphash"
	"math"

	"github.com/parquet-go/parquet-go"
)

// hasher reduces values to 64 bits. Its seed differs from process to process: nobody can make values
// that collide.
type hasher struct{ seed maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed()} }

// text hashes bytes.
func (h hasher) text(b []byte) uint64 { return maphash.Bytes(h.seed, b) }

// value hashes one value of a column, with how deep it is defined: null, or how a list is empty. The
// levels count down from the column's greatest, so that a file whose column can be null and one whose
// cannot give the same hash.
func (h hasher) value(v parquet.Value, maxLevel int) uint64 {
	depth := uint64(maxLevel-v.DefinitionLevel())<<8 | uint64(v.RepetitionLevel()) //nolint:gosec // levels are small and not negative
	if v.IsNull() {
		return mix(depth + 1)
	}
	var bits uint64
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			bits = 1
		}
	case parquet.Int32:
		bits = uint64(int64(v.Int32())) //nolint:gosec // the bits are what counts
	case parquet.Int64:
		bits = uint64(v.Int64()) //nolint:gosec // the bits are what counts
	case parquet.Float:
		bits = uint64(math.Float32bits(v.Float()))
	case parquet.Double:
		bits = math.Float64bits(v.Double())
	case parquet.Int96:
		i := v.Int96()
		bits = mix(uint64(i[0])|uint64(i[1])<<32) ^ uint64(i[2])
	default:
		return mix(h.text(v.ByteArray()) ^ depth)
	}
	return mix(mix(bits^0x9e3779b97f4a7c15) ^ depth)
}

// mix spreads the bits of a number over all 64, as the finalizer of SplitMix64 does.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
