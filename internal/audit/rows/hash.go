package rows

import (
	"hash/maphash"
	"math"

	"github.com/parquet-go/parquet-go/encoding"
)

// hasher reduces values to 64 bits. Its seed differs from audit to audit: nobody can make values that
// collide.
type hasher struct {
	seed maphash.Seed
	salt uint64
}

func newHasher() hasher {
	seed := maphash.MakeSeed()
	return hasher{seed: seed, salt: maphash.String(seed, "salt of numbers")}
}

// text hashes bytes.
func (h hasher) text(b []byte) uint64 { return maphash.Bytes(h.seed, b) }

// word hashes a text.
func (h hasher) word(s string) uint64 { return maphash.String(h.seed, s) }

// number hashes the bits of a number.
func (h hasher) number(bits uint64) uint64 { return mix(bits ^ h.salt) }

// null hashes the absence of a value, by how far below its column's greatest level a row ends: at null,
// or at a list that is empty. Counted from the top, so that a column that can be null and one that
// cannot give the same hashes.
func (h hasher) null(below byte) uint64 { return mix(h.salt + 1 + uint64(below)) }

// values hashes typed values, one after the other. Integers of 32 and 64 bits give the same hash.
func (h hasher) values(v encoding.Values, hashes []uint64) []uint64 {
	hashes = hashes[:0]
	switch v.Kind() {
	case encoding.ByteArray:
		data, offsets := v.ByteArray()
		for i := 1; i < len(offsets); i++ {
			hashes = append(hashes, h.text(data[offsets[i-1]:offsets[i]]))
		}
		return hashes
	case encoding.FixedLenByteArray:
		data, size := v.FixedLenByteArray()
		for ; size > 0 && len(data) >= size; data = data[size:] {
			hashes = append(hashes, h.text(data[:size]))
		}
		return hashes
	}
	return h.numbers(v, hashes)
}

func (h hasher) numbers(v encoding.Values, hashes []uint64) []uint64 {
	switch v.Kind() {
	case encoding.Boolean:
		for _, bits := range v.Boolean() {
			for i := range 8 {
				hashes = append(hashes, h.number(uint64(bits>>i&1)))
			}
		}
	case encoding.Int32:
		for _, n := range v.Int32() {
			hashes = append(hashes, h.number(uint64(int64(n)))) //nolint:gosec // the bits are what counts
		}
	case encoding.Int64:
		for _, n := range v.Int64() {
			hashes = append(hashes, h.number(uint64(n))) //nolint:gosec // the bits are what counts
		}
	case encoding.Int96:
		for _, n := range v.Int96() {
			hashes = append(hashes, h.number(mix(uint64(n[0])|uint64(n[1])<<32)^uint64(n[2])))
		}
	case encoding.Float:
		for _, f := range v.Float() {
			hashes = append(hashes, h.number(uint64(math.Float32bits(f))))
		}
	case encoding.Double:
		for _, f := range v.Double() {
			hashes = append(hashes, h.number(math.Float64bits(f)))
		}
	}
	return hashes
}

// mix spreads the bits of a number over all 64, as the finalizer of SplitMix64 does.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
