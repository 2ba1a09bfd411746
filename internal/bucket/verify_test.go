package bucket_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// TestVerifyReader: for any body, way of reading and change, exactly the named bytes pass, and of
// any others the last named byte is never handed over.
func TestVerifyReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		named := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "named")
		sent := drawChange(t, named)
		source := drawSource(t, sent)
		v := bucket.VerifyReader(source, int64(len(named)), manifest.SumBytes(named))
		got, err := readIn(v, rapid.IntRange(1, 64).Draw(t, "buffer"))
		if bytes.Equal(named, sent) {
			if err != nil || !bytes.Equal(got, named) || !v.Verified() || v.Failure() != nil {
				t.Fatalf("right bytes: %d of %d, %v", len(got), len(named), err)
			}
			return
		}
		if !fault.Is(err, fault.WrongBytes) || v.Verified() || !errors.Is(v.Failure(), err) {
			t.Fatalf("wrong bytes: error %v", err)
		}
		if len(named) > 0 && len(got) >= len(named) {
			t.Fatalf("all %d bytes were handed over before the error", len(got))
		}
	})
}

// drawChange returns named, or other bytes of the kinds that happen on the way.
func drawChange(t *rapid.T, named []byte) []byte {
	sent := bytes.Clone(named)
	switch change := rapid.SampledFrom([]string{"none", "flip", "cut", "add"}).Draw(t, "change"); {
	case change == "flip" && len(sent) > 0:
		sent[rapid.IntRange(0, len(sent)-1).Draw(t, "at")] ^= 1
	case change == "cut" && len(sent) > 0:
		sent = sent[:rapid.IntRange(0, len(sent)-1).Draw(t, "to")]
	case change == "add":
		sent = append(sent, 0)
	}
	return sent
}

// drawSource returns a reader of data with one of the habits that readers have.
func drawSource(t *rapid.T, data []byte) io.Reader {
	source := io.Reader(bytes.NewReader(data))
	switch rapid.SampledFrom([]string{"plain", "byte by byte", "halves", "data with EOF"}).Draw(t, "source") {
	case "byte by byte":
		return iotest.OneByteReader(source)
	case "halves":
		return iotest.HalfReader(source)
	case "data with EOF":
		return iotest.DataErrReader(source)
	default:
		return source
	}
}

// readIn reads with a buffer of n bytes until an error, which is nil for EOF.
func readIn(r io.Reader, n int) ([]byte, error) {
	var got []byte
	buffer := make([]byte, n)
	for {
		n, err := r.Read(buffer)
		got = append(got, buffer[:n]...)
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

func TestVerifyReaderPassesTheSourcesError(t *testing.T) {
	broken := errors.New("source broke")
	for _, sent := range []string{"", "abc", "abcdef"} {
		v := bucket.VerifyReader(io.MultiReader(strings.NewReader(sent), iotest.ErrReader(broken)), 6, manifest.SumBytes([]byte("abcdef")))
		if _, err := io.ReadAll(v); !errors.Is(err, broken) || !errors.Is(v.Failure(), broken) || v.Verified() {
			t.Errorf("after %q: %v", sent, err)
		}
	}
}

func TestVerifyReaderStops(t *testing.T) {
	source := strings.NewReader("abcdef")
	v := bucket.VerifyReader(source, 6, manifest.SumBytes([]byte("abcdef")))
	if _, err := io.ReadFull(v, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	v.Stop()
	if n, err := v.Read(make([]byte, 2)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read after stop: %d, %v", n, err)
	}
	if source.Len() != 4 || v.Failure() != nil || v.Verified() {
		t.Errorf("%d bytes left, failure %v", source.Len(), v.Failure())
	}
}

func TestCheckKey(t *testing.T) {
	for _, good := range []string{"a", "a/b.c", "_mirror/x", ".hidden", "a b", "é", "a..b", "...", strings.Repeat("k", 1024)} {
		if err := bucket.CheckKey(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", `a\b`, "a\n", "a\x7f", "\xff", strings.Repeat("k", 1025)} {
		err := bucket.CheckKey(bad)
		if !fault.Is(err, fault.Malformed) || len(err.Error()) > 400 {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestVerifyReaderRefusesASizeThatIsNone(t *testing.T) {
	_, err := io.ReadAll(bucket.VerifyReader(strings.NewReader("abc"), -1, manifest.SumBytes([]byte("abc"))))
	if !fault.Is(err, fault.WrongBytes) {
		t.Errorf("got %v, want wrong bytes", err)
	}
}
