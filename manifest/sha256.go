package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// SHA256 is the checksum of a file's bytes. Its text form is 64 lower-case hex digits.
type SHA256 [sha256.Size]byte

// ParseSHA256 reads 64 hex digits; upper case is folded.
func ParseSHA256(text string) (SHA256, error) {
	var sum SHA256
	if len(text) != 2*sha256.Size {
		return SHA256{}, fmt.Errorf("parse sha256: want 64 hex digits, got %d characters", len(text))
	}
	if _, err := hex.Decode(sum[:], []byte(text)); err != nil {
		return SHA256{}, fmt.Errorf("parse sha256: want 64 hex digits, got %q", text)
	}
	return sum, nil
}

// SumBytes returns the SHA256 of data.
func SumBytes(data []byte) SHA256 { return sha256.Sum256(data) }

// String returns 64 lower-case hex digits.
func (s SHA256) String() string { return hex.EncodeToString(s[:]) }

// IsZero reports whether s was never set.
func (s SHA256) IsZero() bool { return s == SHA256{} }

// MarshalText implements encoding.TextMarshaler.
func (s SHA256) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *SHA256) UnmarshalText(text []byte) error {
	sum, err := ParseSHA256(string(text))
	if err != nil {
		return err
	}
	*s = sum
	return nil
}

// SumReader reads to the end and returns the SHA256 and the number of bytes.
func SumReader(in io.Reader) (SHA256, int64, error) {
	hash := sha256.New()
	n, err := io.Copy(hash, in)
	if err != nil {
		return SHA256{}, n, err
	}
	return SHA256(hash.Sum(nil)), n, nil
}
