package ledger

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// maxDocument bounds what is read of one document, in bytes: some ten million entries.
const maxDocument = 512 << 20

// Book is the ledger of one audit: what stood when it began, and what it found good since. It
// implements audit.Ledger and is safe for concurrent use.
type Book struct {
	maxAge time.Duration
	now    func() time.Time
	marks  []mark // in order of id; not changed once loaded

	mu      sync.Mutex
	fresh   map[string][]Entry // by document
	Damaged []string           // documents that could not be read, and count for nothing
}

// mark is an entry in memory: 56 bytes.
type mark struct {
	id    manifest.SHA256 // of the key's text
	at    int64           // unix nanoseconds
	tag   uint64
	depth int8
}

// Load reads the ledger for an audit. What was found good within maxAge is not due.
// Documents of datasets that are not selected are left alone.
func Load(ctx context.Context, r bucket.Reader, selected func(dataset string) bool, maxAge time.Duration, now func() time.Time) (*Book, error) {
	book := &Book{maxAge: maxAge, now: now, fresh: map[string][]Entry{}}
	for info, err := range r.List(ctx, manifest.LedgerPrefix, "") {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, manifest.LedgerPrefix), ".parquet")
		if !ok || !strings.HasPrefix(name, "_attachments-") && !selected(name) {
			continue
		}
		raw, _, err := bucket.ReadAll(ctx, r, info.Key, maxDocument)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil && !fault.Is(err, fault.Malformed) {
			return nil, err
		}
		var entries []Entry
		if err == nil {
			entries, err = Decode(raw)
		}
		if err != nil {
			book.Damaged = append(book.Damaged, info.Key)
			continue
		}
		book.enter(entries)
	}
	slices.SortFunc(book.marks, func(a, b mark) int {
		if order := bytes.Compare(a.id[:], b.id[:]); order != 0 {
			return order
		}
		return int(a.depth) - int(b.depth)
	})
	return book, nil
}

func (b *Book) enter(entries []Entry) {
	for _, e := range entries {
		b.marks = append(b.marks, mark{id: manifest.SumBytes([]byte(e.Key)), at: e.CheckedAt.UnixNano(), tag: e.Tag, depth: depth(audit.Level(e.Level))})
	}
}

func depth(level audit.Level) int8 { return int8(slices.Index(audit.Levels(), level)) }

// Last implements audit.Ledger. A check of an object under another tag is none of this object. A
// time in the future, by a clock that was wrong, does not keep an object from being due.
func (b *Book) Last(o audit.Object, level audit.Level) (last time.Time, due bool) {
	id, tag, wanted := manifest.SumBytes([]byte(o.Key)), HashTag(o.Tag), depth(level)
	at, _ := slices.BinarySearchFunc(b.marks, id, func(m mark, id manifest.SHA256) int { return bytes.Compare(m.id[:], id[:]) })
	for ; at < len(b.marks) && b.marks[at].id == id; at++ {
		m := b.marks[at]
		if m.depth < wanted || m.tag != tag {
			continue
		}
		if checked := time.Unix(0, m.at); checked.After(last) {
			last = checked
		}
	}
	age := b.now().Sub(last)
	return last, last.IsZero() || age >= b.maxAge || age < 0
}

// Good implements audit.Ledger.
func (b *Book) Good(o audit.Object, level audit.Level) {
	entry := Entry{Key: o.Key, Level: string(level), CheckedAt: b.now().Truncate(time.Microsecond), Tag: HashTag(o.Tag)}
	b.mu.Lock()
	defer b.mu.Unlock()
	document := Key(o.Dataset, o.SHA256)
	b.fresh[document] = append(b.fresh[document], entry)
}

// Fresh returns what was found good since the ledger was loaded, by the key of the document that
// is to hold it.
func (b *Book) Fresh() map[string][]Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := b.fresh
	b.fresh = map[string][]Entry{}
	return fresh
}
