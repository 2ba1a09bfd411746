package mirror_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// kind is a way to interrupt a write. All but the last end the process there.
type kind struct {
	name string
	when buckettest.CrashWhen
	live bool // the process lives on, and only the answer is lost
}

func kinds() []kind {
	return []kind{
		{name: "before", when: buckettest.BeforeWrite},
		{name: "after", when: buckettest.AfterWrite},
		{name: "answer-lost", when: buckettest.AnswerLost},
		{name: "mid-write", when: buckettest.MidWrite},
		{name: "answer-lost-alive", live: true},
	}
}

// interruption is a store whose user can be interrupted at a write.
type interruption interface {
	bucket.Store
	// Journal returns the writes that were asked for.
	Journal() []buckettest.Write
}

// place is where a bucket stands.
type place struct {
	// sound opens the bucket of a world as it is when nothing goes wrong.
	sound func(t *testing.T, w *world) bucket.Store
	// interrupted opens it for a process that is interrupted at its nth write; 0: never.
	interrupted func(t *testing.T, w *world, nth int64, kind kind) interruption
	// bodied are the writes that have a body to be interrupted in.
	bodied []buckettest.Op
	pace   func(*mirror.Options)
	// exact tells that each run makes the same writes in the same order.
	exact bool
}

// TestEveryInterruptionPoint goes through the life of a bucket, and in each chapter interrupts the
// processes at each of their writes, in each way. Whatever stands then keeps the promises; the next
// pass, and a person who types an interrupted command again, end with the bucket of an undisturbed
// run; and nothing that stood complete is fetched again.
func TestEveryInterruptionPoint(t *testing.T) {
	tallies := map[string]*evidence.Tally{}
	for _, kind := range kinds() {
		tallies[kind.name] = evidence.Count(t, "interruptions-"+kind.name)
	}
	aFolder().walk(t, evidence.Size(37, 1), func(kind kind) *evidence.Tally { return tallies[kind.name] })
}

// TestInterruptionsOfManyWritesAtOnce is the same with datasets and files side by side: writes that
// are under way when a process dies still arrive.
func TestInterruptionsOfManyWritesAtOnce(t *testing.T) {
	tally := evidence.Count(t, "interruptions-side-by-side")
	place := aFolder()
	place.pace, place.exact = func(*mirror.Options) {}, false
	place.walk(t, evidence.Size(541, 4), func(kind) *evidence.Tally { return tally })
}

// walk enacts the life of a bucket and interrupts it at one point in so many.
func (p place) walk(t *testing.T, every int, tally func(kind) *evidence.Tally) {
	w := newWorld(t, feedsim.Options{})
	w.store = p.sound(t, w)
	points, tried := 0, map[string]int{}
	for _, chapter := range lifeOfABucket() {
		stage := p.enact(t, w, chapter)
		for at, write := range stage.writes {
			for _, kind := range kinds() {
				if kind.when == buckettest.MidWrite && !slices.Contains(p.bodied, write.Op) {
					continue
				}
				if points++; points%every != 0 {
					continue
				}
				name := fmt.Sprintf("%s/%s at write %d, %s %s", chapter.name, kind.name, at+1, write.Op, write.Key)
				t.Run(name, func(t *testing.T) {
					if stage.interrupt(t, int64(at+1), kind) {
						tally(kind).Add(1)
						tried[kind.name]++
					}
				})
			}
		}
		w.setClock(stage.ended)
	}
	for _, kind := range kinds() {
		tally(kind).Note("%s: %d", kind.name, tried[kind.name])
	}
}

// aFolder is the local store.
func aFolder() place {
	return place{
		sound: func(_ *testing.T, w *world) bucket.Store { return w.store },
		interrupted: func(_ *testing.T, w *world, nth int64, kind kind) interruption {
			if kind.live {
				return &losing{CrashAfterNthWrite: buckettest.CrashAfterNthWrite{Store: &buckettest.LostAnswer{Store: w.store, Nth: nth}}}
			}
			return &buckettest.CrashAfterNthWrite{Store: w.store, Nth: nth, When: kind.when}
		},
		bodied: []buckettest.Op{buckettest.OpCreate}, pace: oneAtATime, exact: true,
	}
}

// losing keeps the journal of a store that loses an answer, and never crashes.
type losing struct{ buckettest.CrashAfterNthWrite }

// stage is a chapter that was enacted undisturbed.
type stage struct {
	place
	chapter chapter
	before  *world // the bucket as it was, over the same feed
	began   time.Time
	ended   time.Time
	writes  []buckettest.Write
	want    invariant.Normal
	objects map[string]string // the object of each file at the feed
}

// enact lets a chapter happen, once and undisturbed.
func (p place) enact(t *testing.T, w *world, c chapter) *stage {
	t.Helper()
	if c.feed != nil {
		c.feed(w)
	}
	before, _ := w.copyOf(t)
	s := &stage{place: p, chapter: c, before: before, began: w.clock.Now()}
	store := p.interrupted(t, w, 0, kind{})
	if _, err := s.live(w, store); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	for _, violation := range invariant.Unsettled(invariant.Folder(w.dir)) {
		t.Errorf("%s: %+v", c.name, violation)
	}
	s.ended, s.writes, s.want, s.objects = w.clock.Now(), store.Journal(), w.normal(t), w.objectsOfFiles(t)
	return s
}

// live lets the processes of the chapter run over a store. It reports whether the command came to
// its end.
func (s *stage) live(w *world, store bucket.Store) (commanded bool, err error) {
	if s.chapter.command != nil {
		// As the program does it; a pass puts its own layer on top.
		retrying := bucket.WithRetry(store, bucket.Policy{Sleep: w.pause})
		if err := s.chapter.command(context.Background(), w, retrying); err != nil {
			return false, fmt.Errorf("command: %w", err)
		}
	}
	_, err = s.pass(w, store)
	return true, err
}

// pass makes one pass over a store. Anything but success is an error.
func (s *stage) pass(w *world, store bucket.Store) (mirror.Report, error) {
	sound := w.store
	w.store = store
	report := mirror.Run(context.Background(), w.options(s.pace))
	w.store = sound
	if report.Exit == mirror.ExitDone {
		return report, nil
	}
	text, err := json.MarshalIndent(report, "", " ")
	return report, errors.Join(fmt.Errorf("the pass ended with %d: %s", report.Exit, text), err)
}

// oneAtATime leaves nothing to chance: datasets and files follow each other.
func oneAtATime(o *mirror.Options) {
	if reader, ok := o.Manifests.(mirror.ManifestReader); ok {
		engine := reader.Options
		engine.Concurrency = 1
		o.AtOnce, o.Mover = 1, transfer.New(engine)
	}
}

// interrupt enacts the chapter once more on a copy of the bucket and interrupts its nth write. It
// reports whether there was one.
func (s *stage) interrupt(t *testing.T, nth int64, kind kind) bool {
	w, _ := s.before.copyOf(t)
	w.mirrored = cmp.Or(s.before.mirrored, s.before.dir)
	w.logs = &keptLog{}
	t.Cleanup(func() { w.logs.tell(t) })
	w.store = s.sound(t, w)
	w.setClock(s.began)
	w.feed.ResetLog()
	store := s.interrupted(t, w, nth, kind)
	commanded, err := s.live(w, store)
	if int64(len(store.Journal())) < nth {
		if s.exact || err != nil {
			t.Errorf("only %d writes were made (%v)", len(store.Journal()), err)
		}
		return false
	}
	if kind.live {
		if err != nil {
			t.Error(err)
		}
		s.checkFetches(t, w, nil)
		s.checkEnd(t, w)
		return true
	}
	stood := w.take()
	w.whole("after the interruption")
	w.feed.ResetLog()
	s.recover(t, w, commanded)
	for _, violation := range invariant.Compare(stood, w.take()) {
		t.Errorf("what came after violated: %+v", violation)
	}
	s.checkFetches(t, w, stood.Objects)
	s.checkEnd(t, w)
	return true
}

// recover makes the next pass, and types a command again that did not come to its end.
func (s *stage) recover(t *testing.T, w *world, commanded bool) {
	t.Helper()
	report, err := s.pass(w, w.store)
	if err == nil {
		// A command that died before it wrote its decision may still be about to.
		awaited := !commanded && decisions(w) == decisions(s.before)
		for _, violation := range invariant.Unsettled(invariant.Folder(w.dir)) {
			if violation.Kind != invariant.StillPruning && (violation.Kind != invariant.StillOwed || !awaited) {
				t.Errorf("after the next pass: %+v", violation)
			}
		}
	} else if report.Exit != mirror.ExitStopped || !w.pruneDocument().Running() {
		t.Error(err)
	}
	w.whole("after the next pass")
	if commanded {
		return
	}
	if err := s.chapter.command(context.Background(), w, w.store); err != nil && !fault.Is(err, fault.Usage) {
		t.Errorf("the command, again: %v", err)
	}
	if _, err := s.pass(w, w.store); err != nil {
		t.Error(err)
	}
}

// decisions counts what was decided in a bucket.
func decisions(w *world) int {
	count := 0
	for key := range w.take().Objects {
		if strings.HasPrefix(key, "_mirror/decisions/") {
			count++
		}
	}
	return count
}

// checkEnd wants the bucket of the undisturbed run, with nothing left to do.
func (s *stage) checkEnd(t *testing.T, w *world) {
	t.Helper()
	w.whole("at the end")
	for _, violation := range invariant.Unsettled(invariant.Folder(w.dir)) {
		t.Errorf("at the end: %+v", violation)
	}
	for _, violation := range invariant.Equal(s.want, w.normal(t)) {
		t.Errorf("not as undisturbed: %+v", violation)
	}
}

// checkFetches wants no file fetched whose object stood, a manifest before its record excepted, and
// none fetched twice.
func (s *stage) checkFetches(t *testing.T, w *world, stood map[string]invariant.Object) {
	t.Helper()
	fetched := map[string]int{}
	for _, event := range w.feed.Log() {
		if event.Side != feedsim.SideLinks {
			continue
		}
		file := feedsim.FileKey(event.Dataset, event.Version, event.File)
		key := s.objects[file]
		if key == "" {
			t.Errorf("%s was fetched, and is no file of the bucket", file)
		}
		if fetched[key]++; fetched[key] > 1 && s.exact { // side by side two datasets may want one attachment
			t.Errorf("%s was fetched %d times", key, fetched[key])
		}
		needed := key
		if event.File == "manifest.json" {
			needed = manifest.RecordKey(event.Dataset, manifest.Number(event.Version))
		}
		if _, ok := stood[needed]; ok {
			t.Errorf("%s was fetched, although %s stood", file, needed)
		}
	}
}

// objectsOfFiles returns the key of each file that the feed serves, by its name there.
func (w *world) objectsOfFiles(t *testing.T) map[string]string {
	t.Helper()
	objects := map[string]string{}
	for key := range w.take().Objects {
		parsed, ok := manifest.ParseDataKey(key)
		if !ok || parsed.Kind != manifest.KeyDocument || parsed.Rest != "manifest.json" {
			continue
		}
		name := func(file string) string { return feedsim.FileKey(parsed.Dataset, int64(parsed.Version), file) }
		in, err := os.Open(filepath.Join(w.dir, filepath.FromSlash(key)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := manifest.DecodeManifest(in, func(a manifest.Attachment) error {
			objects[name(a.Name)] = manifest.AttachmentKey(a.SHA256)
			return nil
		})
		if err = errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		objects[name("manifest.json")] = key
		for _, file := range m.Files {
			objects[name(file.Path)] = manifest.FileKey(parsed.Dataset, parsed.Version, file)
		}
	}
	return objects
}

func (w *world) normal(t *testing.T) invariant.Normal {
	t.Helper()
	normal, err := invariant.Normalise(invariant.Folder(w.dir))
	if err != nil {
		t.Fatal(err)
	}
	return normal
}

// setClock puts the feed's time, which is the world's, to what it was.
func (w *world) setClock(at time.Time) { w.clock.Advance(at.Sub(w.clock.Now())) }
