package manifest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSumsCoverTheVersionAndReadBack(t *testing.T) {
	r := goodRecord()
	lines := SumLines(r.Manifest, r.Files, r.Attachments.Index)
	var out bytes.Buffer
	if err := EncodeSums(&out, lines); err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSums(iotest.OneByteReader(bytes.NewReader(out.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(lines, func(a, b SumLine) int { return strings.Compare(a.Key, b.Key) })
	if !slices.Equal(got, lines) || len(got) != 5 {
		t.Errorf("got %v, want %v", got, lines)
	}
	if lines := SumLines(r.Manifest, nil, nil); len(lines) != 1 || lines[0].Key != r.Manifest.Key {
		t.Errorf("a version without files: %v", lines)
	}
}

// The coreutils are the reader that the text is for.
func TestCoreutilsAcceptSums(t *testing.T) {
	root := t.TempDir()
	r := goodRecord()
	lines := SumLines(r.Manifest, r.Files, r.Attachments.Index)
	for _, line := range lines {
		// The test's hashes are those of the key (documents) or of the path (files).
		data := line.Key
		for _, f := range r.Files {
			if f.Key == line.Key {
				data = f.Path
			}
		}
		name := filepath.Join(root, filepath.FromSlash(line.Key))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := EncodeSums(&out, lines); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "SHA256SUMS"), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	command.Dir = root
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("sha256sum: %v\n%s", err, said)
	}
}

func TestSumsRefuseKeysThatNeedEscapesOrStandTwice(t *testing.T) {
	for _, keys := range [][]string{{"a\nb"}, {`a\b`}, {"a\rb"}, {""}, {"/a"}, {"../a"}, {"b", "a", "b"}} {
		var lines []SumLine
		for _, key := range keys {
			lines = append(lines, SumLine{SHA256: SumBytes(nil), Key: key})
		}
		if err := EncodeSums(io.Discard, lines); err == nil {
			t.Errorf("%q: want an error", keys)
		}
	}
}

func TestDamagedSumsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"cut":          sumA + "  a",
		"no name":      sumA + "  \n",
		"one space":    sumA + " a\n",
		"binary":       sumA + " *a\n",
		"upper case":   strings.ToUpper(sumA) + "  a\n",
		"short":        sumA[1:] + "  a\n",
		"out of order": sumA + "  b\n" + sumA + "  a\n",
		"twice":        sumA + "  a\n" + sumA + "  a\n",
		"CR LF":        sumA + "  a\r\n",
		"empty line":   sumA + "  a\n\n",
		"long":         sumA + "  " + strings.Repeat("x/", 600) + "x\n",
		"very long":    sumA + "  " + strings.Repeat("x/", 6000) + "x\n",
		"HTML":         "<html>\n",
	} {
		if lines, err := DecodeSums(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: want an error that names the line, got %v, %v", name, lines, err)
		}
	}
}

func FuzzDecodeSums(f *testing.F) {
	f.Add(sumA + "  a\n" + sumB + "  b/c d\n")
	f.Add("")
	f.Add(sumA + "  a")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := DecodeSums(strings.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := EncodeSums(&out, lines); err != nil || out.String() != text {
			t.Fatalf("%q came back as %q, %v", text, out.String(), err)
		}
	})
}
