package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// Entry says that an object was found good.
type Entry struct {
	Key       string
	Level     string    // of the audit
	CheckedAt time.Time // microseconds are kept
	Tag       uint64    // a hash of the store's tag then: another one means another object
}

// row is an entry as Parquet stores it. People read it with SQL: never change names, only add.
type row struct {
	Key       string    `parquet:"key,delta,zstd"`
	Level     string    `parquet:"level,dict"`
	CheckedAt time.Time `parquet:"checked_at,timestamp(microsecond)"`
	TagHash   uint64    `parquet:"tag_hash"`
}

// HashTag returns what an entry keeps of a tag.
func HashTag(tag bucket.Tag) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(tag))
	return hash.Sum64()
}

// Key returns the key of the document that holds an object's entry.
func Key(dataset string, sum manifest.SHA256) string {
	if dataset != "" {
		return manifest.LedgerPrefix + dataset + ".parquet"
	}
	return manifest.LedgerPrefix + "_attachments-" + sum.String()[:1] + ".parquet"
}

// Encode returns a document of the entries, in the order of their keys.
func Encode(entries []Entry) ([]byte, error) {
	entries = slices.SortedFunc(slices.Values(entries), compare)
	rows := make([]row, len(entries))
	for at, e := range entries {
		rows[at] = row{Key: e.Key, Level: e.Level, CheckedAt: e.CheckedAt.UTC(), TagHash: e.Tag}
	}
	var out bytes.Buffer
	writer := parquet.NewGenericWriter[row](&out, parquet.CreatedBy("feedmirror", "1", "audit-ledger"))
	if _, err := writer.Write(rows); err != nil {
		return nil, fmt.Errorf("encode ledger: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("encode ledger: %w", err)
	}
	return out.Bytes(), nil
}

// Decode reads a document. The Parquet library panics on some damage; that is an error here.
func Decode(data []byte) (entries []Entry, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			entries, err = nil, fmt.Errorf("decode ledger: %v", problem)
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("decode ledger: %w", err)
	}
	if want := parquet.SchemaOf(row{}); file.Schema().String() != want.String() && !holds(file.Schema(), want) {
		return nil, errors.New("decode ledger: it lacks a column")
	}
	reader := parquet.NewGenericReader[row](file)
	defer reader.Close() //nolint:errcheck // only read from
	rows := make([]row, 256)
	for {
		n, err := reader.Read(rows)
		for _, r := range rows[:n] {
			entries = append(entries, Entry{Key: strings.Clone(r.Key), Level: strings.Clone(r.Level), CheckedAt: r.CheckedAt.UTC(), Tag: r.TagHash})
		}
		switch {
		case errors.Is(err, io.EOF) && int64(len(entries)) == file.NumRows():
			return entries, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("decode ledger: it ends after %d of %d rows", len(entries), file.NumRows())
		case err != nil:
			return nil, fmt.Errorf("decode ledger: %w", err)
		}
		clear(rows)
	}
}

func holds(schema, want *parquet.Schema) bool {
	for _, path := range want.Columns() {
		if _, ok := schema.Lookup(path...); !ok {
			return false
		}
	}
	return true
}

// Merge returns what two writers know together: of each key and level the later check. What is
// older than oldest is left out; it would be checked first in any case.
func Merge(standing, fresh []Entry, oldest time.Time) []Entry {
	all := slices.Concat(standing, fresh)
	slices.SortStableFunc(all, func(a, b Entry) int {
		if order := compare(a, b); order != 0 {
			return order
		}
		return b.CheckedAt.Compare(a.CheckedAt)
	})
	all = slices.CompactFunc(all, func(a, b Entry) bool { return a.Key == b.Key && a.Level == b.Level })
	return slices.DeleteFunc(all, func(e Entry) bool { return e.CheckedAt.Before(oldest) })
}

func compare(a, b Entry) int {
	if order := strings.Compare(a.Key, b.Key); order != 0 {
		return order
	}
	return strings.Compare(a.Level, b.Level)
}
