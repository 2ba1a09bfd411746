package e2e_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

const bulky = "ds_bulky"

// halfway is a world with a run that has stored all files of a version but one, a part whose bytes
// stall in the middle.
type halfway struct {
	*world
	run     *run
	release func() // lets the bytes go on
}

const (
	stalledPart = "snapshot/part-0001.parquet"
	parts       = 3
	documents   = 60
)

// newHalfway starts a sync and returns when nothing but the stalled part is left to copy. Another
// dataset was mirrored before.
func newHalfway(t *testing.T, at place, flags ...string) *halfway {
	t.Helper()
	w := newWorld(t, at, feedsim.Options{})
	w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 5}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	before := w.stored()
	w.feed.ResetLog()
	_, err := w.feed.AddBulk(feedsim.BulkSpec{Dataset: bulky, Parts: parts, PartBytes: 300 << 10, Attachments: documents, AttachmentBytes: 3000})
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: stalledPart, Times: feedsim.Always}, feedsim.Stall(100<<10, released, 0))
	h := &halfway{world: w, release: sync.OnceFunc(func() { close(released) }), run: w.start(nil, append([]string{"sync", "--output", "json"}, flags...)...)}
	const others = parts - 1 + documents + 2 // schema and manifest
	h.until("everything but one part is stored", func() bool { return h.stalled() && w.stored() == before+others })
	return h
}

// stored returns how many objects stand in the bucket beside the mirror's own.
func (w *world) stored() int {
	w.t.Helper()
	root, objects := w.place.files(w.t), 0
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return 0 // a folder that was never made
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && !isBelow(filepath.Join(root, "_mirror"), path) {
			objects++
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return objects
}

// until waits for a condition of the feed or the bucket.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("a minute passed before %s", what)
		}
		time.Sleep(50 * time.Millisecond) // between two questions; nothing rests on its length
	}
}

// stalled reports whether the part has been asked for and its answer is under way.
func (h *halfway) stalled() bool {
	for _, event := range h.feed.Log() {
		if event.File == stalledPart && event.End.IsZero() {
			return true
		}
	}
	return false
}

// leasesGivenBack wants every lease to be expired, and returns how many there are.
func (w *world) leasesGivenBack() int {
	w.t.Helper()
	root := w.place.files(w.t)
	leases, err := filepath.Glob(filepath.Join(root, "_mirror/leases/*.json"))
	if err != nil || len(leases) == 0 {
		w.t.Errorf("no lease was found: %v", err)
	}
	for _, lease := range leases {
		var held struct{ Until time.Time }
		w.document(strings.TrimPrefix(filepath.ToSlash(lease), filepath.ToSlash(root)+"/"), &held)
		if held.Until.After(time.Now()) {
			w.t.Errorf("%s is held until %s", filepath.Base(lease), held.Until)
		}
	}
	return len(leases)
}

// owedDatasets returns what the one shard document of the bucket owes.
func (w *world) owedDatasets() []string {
	w.t.Helper()
	root := w.place.files(w.t)
	shards, err := filepath.Glob(filepath.Join(root, "_mirror/shards/*.json"))
	if err != nil || len(shards) != 1 {
		w.t.Fatalf("shard documents %v, %v, want one", shards, err)
	}
	var shard struct {
		Owed     []struct{ Dataset string }
		LastExit int
	}
	w.document(strings.TrimPrefix(filepath.ToSlash(shards[0]), filepath.ToSlash(root)+"/"), &shard)
	var owed []string
	for _, one := range shard.Owed {
		owed = append(owed, one.Dataset)
	}
	return owed
}

// finishedByTheNext starts the next run at once and wants it to fetch the part alone, within a time.
func (h *halfway) finishedByTheNext(within time.Duration, flags ...string) {
	h.t.Helper()
	h.feed.ClearScript()
	h.feed.ResetLog()
	done := h.world.run(0, append([]string{"sync", "--output", "json"}, flags...)...)
	r := decode[report](h.t, done)
	if r.Datasets.Busy != 0 || r.Datasets.Owed != 0 || r.Files.Copied != 1 || r.Versions.Committed != 1 || r.Versions.Published != 1 {
		h.t.Errorf("the next run: %+v", r)
	}
	if done.took > within {
		h.t.Errorf("the next run took %s, more than %s", done.took, within)
	}
	for file, times := range h.feed.Completed() {
		if times != 1 || file != feedsim.FileKey(bulky, 1, stalledPart) && file != feedsim.FileKey(bulky, 1, "manifest.json") {
			h.t.Errorf("%s was fetched %d times by the next run", file, times)
		}
	}
	h.published(bulky, 1)
	h.published(permits, 2)
	h.world.run(0, "verify")
}

// stop is a signal and the exit code that tells of it.
type stop struct {
	signal syscall.Signal
	exit   int
}

func signals() map[string]stop {
	return map[string]stop{"SIGTERM": {syscall.SIGTERM, 143}, "SIGINT": {syscall.SIGINT, 130}}
}

func TestASignalStopsASyncThatTheNextOneFinishes(t *testing.T) {
	stores := map[string]func(*testing.T) place{"folder": folderPlace, "versitygw": places()["versitygw"]}
	for store, open := range stores {
		for name, s := range signals() {
			t.Run(name+" on "+store, func(t *testing.T) {
				t.Parallel()
				h := newHalfway(t, open(t))
				sent := time.Now()
				if err := h.run.command.Process.Signal(s.signal); err != nil {
					t.Fatal(err)
				}
				done := h.run.wait()
				if took := time.Since(sent); took > 10*time.Second || done.exit != s.exit {
					t.Errorf("ended %s after the signal with %d, want %d within 10 s\n%s", took, done.exit, s.exit, tail(done.err))
				}
				if r := decode[report](t, done); r.Status != "interrupted" || r.Exit != s.exit || r.Datasets.Owed != 1 || r.Datasets.Failed != 0 || r.Files.Copied != parts-1+documents+1 {
					t.Errorf("report: %+v", r)
				}
				if owed := h.owedDatasets(); len(owed) != 1 || owed[0] != bulky {
					t.Errorf("owed %v, want %s", owed, bulky)
				}
				h.leasesGivenBack()
				if stands := h.staging(); len(stands) > 0 {
					t.Errorf("staging files stay: %v", stands)
				}
				h.finishedByTheNext(30 * time.Second)
			})
		}
	}
}

// staging returns the local store's unfinished files.
func (w *world) staging() []string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.place.files(w.t), "_mirror/tmp/*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return files
}

// TestAKilledRunIsTakenOverWithinALease kills a run that can save nothing and give nothing back.
func TestAKilledRunIsTakenOverWithinALease(t *testing.T) {
	const ttl = 4 * time.Second
	for store, open := range map[string]func(*testing.T) place{"folder": folderPlace, "versitygw": places()["versitygw"]} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			h := newHalfway(t, open(t), "--lease-ttl", ttl.String())
			if err := h.run.command.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if done := h.run.wait(); done.exit != -1 {
				t.Errorf("ended with %d", done.exit)
			}
			h.finishedByTheNext(ttl+20*time.Second, "--lease-ttl", ttl.String())
			h.leasesGivenBack()
			if stands := h.staging(); len(stands) > 0 {
				t.Errorf("staging files stay: %v", stands)
			}
		})
	}
}

// hanging is a versitygw that stops answering when it is told to.
type hanging struct {
	place
	on      atomic.Bool
	waiting atomic.Int64 // requests that hang
}

func newHanging(t *testing.T) *hanging {
	h := &hanging{}
	server := servers.VersityGW(t).Behind(t, func(r *http.Request) {
		if !h.on.Load() {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // only then is the end of a client noticed
			return
		}
		h.waiting.Add(1)
		<-r.Context().Done()
	})
	h.place = s3Place(t, server)
	bucket, _, _ := strings.Cut(strings.TrimPrefix(h.url, "s3://"), "/")
	h.files = below(func(t *testing.T, dir string) { servers.VersityGW(t).Download(t, bucket, dir) })
	return h
}

// TestABucketThatHangsDoesNotHoldASignalUp takes the bucket away before the signal: nothing can be
// saved or given back, and the program ends in time all the same.
func TestABucketThatHangsDoesNotHoldASignalUp(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	bucket := newHanging(t)
	h := newHalfway(t, bucket.place, "--lease-ttl", ttl.String())
	bucket.on.Store(true)
	sent := time.Now()
	if err := h.run.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := h.run.wait()
	if took := time.Since(sent); took > 10*time.Second || done.exit != 143 {
		t.Errorf("ended %s after the signal with %d, want 143 within 10 s\n%s", took, done.exit, tail(done.err))
	}
	t.Logf("ended %s after the signal", time.Since(sent).Round(time.Millisecond))
	if bucket.waiting.Load() == 0 {
		t.Error("the bucket was not asked for anything after the signal")
	}
	bucket.on.Store(false)
	h.finishedByTheNext(ttl+20*time.Second, "--lease-ttl", ttl.String())
}

// TestASecondSignalDoesNotWait sends one more while the program waits for a bucket that hangs.
func TestASecondSignalDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, s := range signals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucket := newHanging(t)
			h := newHalfway(t, bucket.place)
			bucket.on.Store(true)
			if err := h.run.command.Process.Signal(s.signal); err != nil {
				t.Fatal(err)
			}
			h.until("the program waits for the bucket", func() bool { return bucket.waiting.Load() > 0 })
			again := time.Now()
			if err := h.run.command.Process.Signal(s.signal); err != nil {
				t.Fatal(err)
			}
			if done := h.run.wait(); done.exit != s.exit || time.Since(again) > 2*time.Second {
				t.Errorf("ended %s after the second signal with %d, want %d at once", time.Since(again), done.exit, s.exit)
			}
			bucket.on.Store(false)
		})
	}
}

// TestATimeBudgetStopsASyncThatTheNextOneFinishes lets --max-duration pass in the middle of a file.
func TestATimeBudgetStopsASyncThatTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	const budget = 8 * time.Second
	h := newHalfway(t, folderPlace(t), "--max-duration", budget.String())
	done := h.run.wait()
	if done.exit != 6 || done.took < budget || done.took > budget+10*time.Second {
		t.Errorf("ended with %d after %s, want 6 after %s\n%s", done.exit, done.took, budget, tail(done.err))
	}
	if r := decode[report](t, done); r.Status != "stopped" || r.Exit != 6 || r.Datasets.Owed != 1 || r.Datasets.Failed != 0 {
		t.Errorf("report: %+v", r)
	}
	if owed := h.owedDatasets(); len(owed) != 1 || owed[0] != bulky {
		t.Errorf("owed %v, want %s", owed, bulky)
	}
	h.leasesGivenBack()
	h.finishedByTheNext(30 * time.Second)
}
