package manifest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// SumLine is one line of SHA256SUMS: the checksum of the object under a key.
type SumLine struct {
	SHA256 SHA256
	Key    string // relative to the bucket's root
}

// SumLines returns a line for each of a version's objects that SHA256SUMS covers: its manifest,
// its files and its attachment index, if there is one. Attachments name themselves, and the
// record, which names SHA256SUMS, cannot be in it.
func SumLines(manifest ObjectRef, files []RecordFile, index *ObjectRef) []SumLine {
	lines := make([]SumLine, 0, len(files)+2)
	lines = append(lines, SumLine{SHA256: manifest.SHA256, Key: manifest.Key})
	for _, f := range files {
		lines = append(lines, SumLine{SHA256: f.SHA256, Key: f.Key})
	}
	if index != nil {
		lines = append(lines, SumLine{SHA256: index.SHA256, Key: index.Key})
	}
	return lines
}

// EncodeSums writes lines as sha256sum -c of the coreutils reads them from the bucket's root,
// sorted by key. Keys that coreutils would have to escape, and keys that stand twice, are an
// error: CheckKey lets none of the former through.
func EncodeSums(out io.Writer, lines []SumLine) error {
	lines = slices.SortedFunc(slices.Values(lines), func(a, b SumLine) int { return strings.Compare(a.Key, b.Key) })
	buffered := bufio.NewWriter(out)
	for i, line := range lines {
		if err := CheckKey(line.Key); err != nil {
			return fmt.Errorf("encode sums: %w", err)
		}
		if i > 0 && lines[i-1].Key == line.Key {
			return fmt.Errorf("encode sums: key %s stands twice", Quote(line.Key))
		}
		if _, err := fmt.Fprintf(buffered, "%s  %s\n", line.SHA256, line.Key); err != nil {
			return fmt.Errorf("encode sums: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("encode sums: %w", err)
	}
	return nil
}

// DecodeSums reads what EncodeSums wrote and refuses everything else.
func DecodeSums(in io.Reader) ([]SumLine, error) {
	reader := bufio.NewReader(in)
	var lines []SumLine
	for number := 1; ; number++ {
		text, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		var line SumLine
		if err == nil {
			line, err = parseSumLine(text)
		}
		switch {
		case err != nil:
		case number > maxSumLines:
			err = fmt.Errorf("more than %d lines", maxSumLines)
		case number > 1 && lines[number-2].Key >= line.Key:
			err = errors.New("not in order of keys")
		}
		if err != nil {
			return nil, fmt.Errorf("decode sums: line %d: %w", number, err)
		}
		lines = append(lines, line)
	}
}

const maxSumLines = MaxFiles + 2 // files, manifest and index

// readLine returns a line without its line feed, and io.EOF only where none begins.
func readLine(in *bufio.Reader) (string, error) {
	text, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(text) > 0:
		return "", io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull): // keys of 1,025 bytes and more are left to CheckKey
		return "", fmt.Errorf("longer than %d bytes", len(text))
	case err != nil:
		return "", err
	}
	return string(text[:len(text)-1]), nil
}

func parseSumLine(text string) (SumLine, error) {
	digits, key, ok := strings.Cut(text, "  ")
	if !ok {
		return SumLine{}, errors.New("want a checksum, two spaces and a name")
	}
	sum, err := ParseSHA256(digits)
	if err != nil {
		return SumLine{}, fmt.Errorf("want 64 hex digits, got %s", Quote(digits))
	}
	if sum.String() != digits {
		return SumLine{}, errors.New("want lower-case hex digits")
	}
	return SumLine{SHA256: sum, Key: key}, CheckKey(key)
}
