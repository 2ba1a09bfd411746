package parquetinfo

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
)

// TestTheBeginningOfASnappyBlockIsThatOfTheWhole: for texts that repeat themselves near and far, blocks of
// garbage, and blocks that are cut off.
func TestTheBeginningOfASnappyBlockIsThatOfTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for try := range 300 {
		var text []byte
		for len(text) < 200+random.IntN(150_000) {
			switch at := random.IntN(4); {
			case at == 0 && len(text) > 0: // something from before, mostly far back
				from := random.IntN(len(text))
				text = append(text, text[from:min(len(text), from+1+random.IntN(300))]...)
			case at == 1:
				text = append(text, bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(500))...)
			default:
				for range random.IntN(200) {
					text = append(text, byte(random.IntN(256)))
				}
			}
		}
		block := snappy.Encode(nil, text)
		if try%2 == 0 {
			block = s2.EncodeSnappyBest(nil, text)
		}
		n := 1 + random.IntN(len(text))
		if got := snappyBegin(block, make([]byte, 0, n)); !bytes.Equal(got, text[:n]) {
			t.Fatalf("try %d: the first %d bytes of %d differ", try, n, len(text))
		}
		cut := snappyBegin(block[:random.IntN(len(block))], make([]byte, 0, n))
		if !bytes.HasPrefix(text, cut) {
			t.Fatalf("try %d: a block that is cut off gives other bytes", try)
		}
		for range 20 {
			block[random.IntN(len(block))] ^= byte(1 + random.IntN(255))
			if got := snappyBegin(block, make([]byte, 0, n)); len(got) > n {
				t.Fatalf("try %d: %d bytes in %d", try, len(got), n)
			}
		}
	}
}
