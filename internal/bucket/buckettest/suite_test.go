package buckettest

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
)

// recorder is a test that may fail without failing the test that runs it.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }

// red reports whether a group fails on a store.
func red(t *testing.T, group func(testing.TB, *subject), store bucket.Store) bool {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		group(r, &subject{Store: store})
	}()
	<-done
	return r.failed
}

func local(t *testing.T) bucket.Store {
	t.Helper()
	store, err := localstore.New(localstore.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatalf("open folder: %v", err)
	}
	return store
}

// TestBrokenStoresAreCaught plants one fault at a time: each must turn the groups named red.
func TestBrokenStoresAreCaught(t *testing.T) {
	byName := map[string]func(testing.TB, *subject){}
	for _, g := range groups() {
		byName[g.name] = g.run
	}
	rivals := func() func(string) { // lets two writers meet between look and write
		var once sync.WaitGroup
		once.Add(2)
		var mu sync.Mutex
		left := 2
		return func(string) {
			mu.Lock()
			meet := left > 0
			left--
			mu.Unlock()
			if meet {
				once.Done()
				once.Wait()
			}
		}
	}
	for name, c := range map[string]struct {
		groups []string
		broken func(bucket.Store) bucket.Store
	}{
		"ignores conditions": {
			[]string{"exists", "create-race", "swap", "swap-race", "swap-create-race", "replace", "replace-race", "delete-stale", "thresholds"},
			func(s bucket.Store) bucket.Store { return &IgnoreConditions{s} },
		},
		"weak create": {
			[]string{"create-race"},
			func(s bucket.Store) bucket.Store { return &WeakCreate{Store: s, Between: rivals()} },
		},
		"short read": {
			[]string{"ranges"},
			func(s bucket.Store) bucket.Store { return &ShortRead{Store: s, Key: "ranged", Bytes: 9_999} },
		},
		"flipped bit": {
			[]string{"large-document"},
			func(s bucket.Store) bucket.Store { return &FlipBit{Store: s, Key: "large.json", Offset: 3 << 20} },
		},
		"no delete":    {[]string{"delete", "list-after-write", "names"}, func(s bucket.Store) bucket.Store { return NoDelete{s} }},
		"first create": {[]string{"create"}, func(s bucket.Store) bucket.Store { return &FailNth{Store: s, Op: OpCreate, From: 1} }},
		"lost answer":  {[]string{"create"}, func(s bucket.Store) bucket.Store { return &LostAnswer{Store: s, Nth: 1} }},
		"stray key": {
			[]string{"list-empty", "list-order", "wrong-bytes", "cancel"},
			func(s bucket.Store) bucket.Store {
				return &LieAboutExistence{Store: s, Infos: map[string]bucket.Info{"stray": {Size: 1}}}
			},
		},
		"lost in list":   {[]string{"list-pages", "list-after-write"}, func(s bucket.Store) bucket.Store { return listsOnce{s} }},
		"keeps anything": {[]string{"wrong-bytes", "too-short", "too-long", "threshold-wrong-bytes", "replace-wrong-bytes"}, func(s bucket.Store) bucket.Store { return believing{s} }},
		"silent cut":     {[]string{"broken-source"}, func(s bucket.Store) bucket.Store { return cutting{s} }},
	} {
		for _, group := range c.groups {
			t.Run(name+"/"+group, func(t *testing.T) {
				if byName[group] == nil {
					t.Fatal("no such group")
				}
				if !red(t, byName[group], c.broken(local(t))) {
					t.Error("the group stays green on a broken store")
				}
			})
		}
	}
}

// listsOnce leaves out the second key of every listing.
type listsOnce struct{ bucket.Store }

func (s listsOnce) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		n := 0
		for info, err := range s.Store.List(ctx, prefix, after) {
			if n++; n == 2 {
				continue
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// believing stores what comes, whatever was named.
type believing struct{ bucket.Store }

func (s believing) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	data, err := io.ReadAll(content.Body)
	if err != nil {
		return bucket.Info{}, err
	}
	return s.Store.Create(ctx, key, contentBytes(data, content.Class))
}

func (s believing) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	data, err := io.ReadAll(content.Body)
	if err != nil {
		return bucket.Info{}, err
	}
	return s.Store.Replace(ctx, key, old, contentBytes(data, content.Class))
}

// cutting stores what came before the source broke, as a writer that is closed after an error does.
type cutting struct{ bucket.Store }

func (s cutting) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	data, err := io.ReadAll(content.Body)
	info, createErr := s.Store.Create(ctx, key, contentBytes(data, content.Class))
	return info, errors.Join(err, createErr)
}

func TestCrashAfterNthWrite(t *testing.T) {
	for when, want := range map[CrashWhen][]string{
		BeforeWrite: {"1"},
		AfterWrite:  {"1", "2"},
		AnswerLost:  {"1", "2"},
	} {
		beneath := local(t)
		crashing := &CrashAfterNthWrite{Store: beneath, Nth: 2, When: when}
		_, first := bucket.CreateDocument(t.Context(), crashing, "1", []byte("a"))
		_, second := crashing.Swap(t.Context(), "2", bucket.Absent, []byte("b"))
		_, third := bucket.CreateDocument(t.Context(), crashing, "3", []byte("c"))
		if first != nil || (second == nil) != (when == AfterWrite) || !errors.Is(third, ErrCrashed) {
			t.Errorf("when %d: got %v, %v, %v", when, first, second, third)
		}
		if second != nil && !errors.Is(second, ErrCrashed) {
			t.Errorf("when %d: the fatal write says %v", when, second)
		}
		if _, err := crashing.Stat(t.Context(), "1"); !errors.Is(err, ErrCrashed) || !crashing.Crashed() {
			t.Errorf("when %d: a dead process read: %v", when, err)
		}
		for _, err := range crashing.List(t.Context(), "", "") {
			if !errors.Is(err, ErrCrashed) {
				t.Errorf("when %d: a dead process listed: %v", when, err)
			}
		}
		if crashing.Writes() != 2 {
			t.Errorf("when %d: %d writes, want 2", when, crashing.Writes())
		}
		(&subject{Store: beneath}).wantKeys(t, want...)
	}
}

// TestCrashInTheMiddleOfABody: the store reads half of a body and keeps nothing of it; a write
// without a body does not begin.
func TestCrashInTheMiddleOfABody(t *testing.T) {
	for name, write := range map[string]func(bucket.Store, *readMeter) error{
		"create": func(s bucket.Store, body *readMeter) error {
			content := contentBytes([]byte("0123456789"), bucket.Data)
			body.Reader, content.Body = content.Body, body
			_, err := s.Create(t.Context(), "2", content)
			return err
		},
		"swap": func(s bucket.Store, _ *readMeter) error {
			_, err := s.Swap(t.Context(), "2", bucket.Absent, []byte("b"))
			return err
		},
	} {
		beneath := local(t)
		crashing := &CrashAfterNthWrite{Store: beneath, Nth: 2, When: MidWrite}
		if _, err := bucket.CreateDocument(t.Context(), crashing, "1", []byte("a")); err != nil {
			t.Fatal(err)
		}
		var body readMeter
		if err := write(crashing, &body); !errors.Is(err, ErrCrashed) || !crashing.Crashed() {
			t.Errorf("%s: got %v", name, err)
		}
		if want := map[string]int{"create": 5, "swap": 0}[name]; body.bytes != want {
			t.Errorf("%s: %d bytes of the body were read, want %d", name, body.bytes, want)
		}
		if journal := crashing.Journal(); len(journal) != 2 || journal[1] != (Write{Op(name), "2"}) {
			t.Errorf("%s: the journal says %v", name, journal)
		}
		(&subject{Store: beneath}).wantKeys(t, "1")
	}
}

// readMeter counts what is read.
type readMeter struct {
	io.Reader
	bytes int
}

func (m *readMeter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.bytes += n
	return n, err
}

func TestLieAboutExistence(t *testing.T) {
	s := &subject{Store: local(t)}
	s.mustCreate(t, "b", []byte("b"))
	s.mustCreate(t, "d", []byte("d"))
	s.Store = &LieAboutExistence{Store: s.Store, Infos: map[string]bucket.Info{"a": {Size: 1}, "b": {Size: 9}, "c": {}, "e": {}}}
	s.wantKeys(t, "a", "b", "c", "d", "e")
	info, err := s.Stat(t.Context(), "a")
	if err != nil || info.Size != 1 || info.Key != "a" {
		t.Errorf("stat of a lie: %+v, %v", info, err)
	}
	if info, err = s.Stat(t.Context(), "b"); err != nil || info.Size != 1 {
		t.Errorf("stat of what is there: %+v, %v", info, err)
	}
	_, _, err = s.Open(t.Context(), "a", 0, -1)
	wantKind(t, err, fault.NotFound)
}
