package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// apiKey is nothing that stands in an output or a bucket by chance.
const apiKey = "pk_live_7f3d+e2e/never=shown"

// runLimit bounds one run of the program on a busy machine.
const runLimit = 2 * time.Minute

// world is a simulated feed, a bucket, and runs of the program between them.
type world struct {
	t       *testing.T
	feed    *feedsim.Feed
	place   place
	env     []string // beside the place's
	home    string
	secrets []string

	mu      sync.Mutex
	outputs []string // of all runs, with the command line before
}

// newWorld starts a feed before a bucket. When the test ends the bucket keeps every promise, and
// no secret stands in any output or object.
func newWorld(t *testing.T, at place, options feedsim.Options) *world {
	t.Helper()
	options.Seed, options.Key = 23, apiKey
	feed, err := feedsim.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := feed.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, feed: feed, place: at, home: t.TempDir(), secrets: []string{apiKey}}
	for _, line := range append(at.env, at.wrong...) {
		if name, secret, _ := strings.Cut(line, "="); strings.Contains(name, "SECRET") || name == "AZURE_STORAGE_KEY" {
			w.secrets = append(w.secrets, secret)
		}
	}
	t.Cleanup(w.check)
	return w
}

// check wants the invariants and no secret anywhere.
func (w *world) check() {
	root := w.place.files(w.t)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		root = w.t.TempDir() // a folder that was never made holds nothing
	}
	for _, violation := range invariant.Check(invariant.Folder(root)) {
		w.t.Errorf("bucket: %s", violation)
	}
	w.checkSecrets(root)
	for _, broken := range w.feed.ViolationsSeen() {
		w.t.Errorf("links host: %+v", broken)
	}
	if w.t.Failed() {
		for _, output := range w.outputs[max(0, len(w.outputs)-2):] {
			w.t.Log(tail(output))
		}
	}
}

// snapshot hashes everything that the bucket holds.
func (w *world) snapshot() invariant.Snapshot {
	w.t.Helper()
	snapshot, err := invariant.Take(invariant.Folder(w.place.files(w.t)))
	if err != nil {
		w.t.Fatal(err)
	}
	return snapshot
}

// document decodes a document of the bucket.
func (w *world) document(key string, value any) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.place.files(w.t), filepath.FromSlash(key)))
	if err == nil {
		err = json.Unmarshal(data, value)
	}
	if err != nil {
		w.t.Fatalf("read %s: %v", key, err)
	}
}

func (w *world) dataset(spec feedsim.DatasetSpec, releases ...feedsim.ReleaseSpec) *feedsim.Dataset {
	w.t.Helper()
	d, err := w.feed.AddDataset(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, release := range releases {
		w.release(d, release)
	}
	return d
}

func (w *world) release(d *feedsim.Dataset, spec feedsim.ReleaseSpec) int64 {
	w.t.Helper()
	n, err := d.Release(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// run is one run of the program.
type run struct {
	t       *testing.T
	world   *world
	command *exec.Cmd
	cancel  context.CancelFunc
	started time.Time
	out     bytes.Buffer
	err     bytes.Buffer
	once    sync.Once
	failed  error     // how it ended
	over    time.Time // when somebody saw that
}

// result is how a run ended.
type result struct {
	exit     int
	out, err string
	took     time.Duration
}

// start starts the program. Settings of the machine's user must not reach it, so that the
// environment holds only what is named here.
func (w *world) start(env []string, args ...string) *run {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	r := &run{t: w.t, world: w, command: exec.CommandContext(ctx, program, args...), cancel: cancel, started: time.Now()}
	r.command.Dir = w.home
	r.command.Stdout, r.command.Stderr = &r.out, &r.err
	r.command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "TMPDIR=" + w.home, "PLOTI_API_KEY=" + apiKey,
		"MIRROR_FEED_URL=" + w.feed.URL(), "MIRROR_BUCKET=" + w.place.url,
		"MIRROR_LOG_LEVEL=trace", "MIRROR_LOG_FORMAT=json",
	}, w.place.env...)
	r.command.Env = append(append(r.command.Env, w.env...), env...)
	if err := r.command.Start(); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ended waits for the end, for several at once.
func (r *run) ended() {
	r.once.Do(func() { r.failed, r.over = r.command.Wait(), time.Now() })
}

// wait waits for the end and keeps the output.
func (r *run) wait() result {
	r.t.Helper()
	r.ended()
	err := r.failed
	r.cancel()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		r.t.Fatal(err)
	}
	done := result{exit: r.command.ProcessState.ExitCode(), out: r.out.String(), err: r.err.String(), took: r.over.Sub(r.started)}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.world.outputs = append(r.world.outputs, strings.Join(r.command.Args[1:], " ")+"\n"+done.out+done.err)
	return done
}

// run runs the program and wants this exit code.
func (w *world) run(exit int, args ...string) result {
	w.t.Helper()
	return w.runWith(exit, nil, args...)
}

func (w *world) runWith(exit int, env []string, args ...string) result {
	w.t.Helper()
	done := w.start(env, args...).wait()
	if done.exit != exit {
		w.t.Fatalf("%s ended with %d, want %d\n%s%s", strings.Join(args, " "), done.exit, exit, done.out, tail(done.err))
	}
	return done
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// decode reads the one JSON object of a run's standard output.
func decode[T any](t *testing.T, done result) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(done.out), &value); err != nil {
		t.Fatalf("standard output is no single JSON value: %v\n%s", err, done.out)
	}
	return value
}

// report is what sync --output json promises.
type report struct {
	Status, Pass string
	Exit         int
	Datasets     struct{ Seen, Changed, Failed, Held, Withdrawn, Owed, Busy int }
	Versions     struct{ Committed, Published, Gone int }
	Files        struct{ Copied, Present, Failed int64 }
	Bytes        struct{ Copied, Deduplicated int64 }
	Requests     struct{ Feed, Links, Source, BucketRead, BucketWrite, BucketList int64 }
	Failures     []struct {
		Dataset, Object, Side, Message, Hint string
		Version                              int64
	}
	Notes []struct{ Kind, Message string }
}

// sync makes one pass and wants this exit code.
func (w *world) sync(exit int, flags ...string) report {
	w.t.Helper()
	r := decode[report](w.t, w.run(exit, append([]string{"sync", "--output", "json"}, flags...)...))
	if r.Exit != exit {
		w.t.Errorf("the report says exit %d, the program ended with %d", r.Exit, exit)
	}
	return r
}

type pointer struct {
	Version   int64
	Revision  int64
	Pinned    bool
	Withdrawn bool
	Held      *struct {
		Version int64
		Reason  string
	}
}

// published wants a dataset's pointer at a version.
func (w *world) published(dataset string, version int64) pointer {
	w.t.Helper()
	var p pointer
	w.document("current/"+dataset+".json", &p)
	if p.Version != version {
		w.t.Fatalf("the pointer of %s is %+v, want version %d", dataset, p, version)
	}
	return p
}

// fetchedOnce wants every file that the feed sent since the log was reset to be sent once.
func (w *world) fetchedOnce() {
	w.t.Helper()
	for file, times := range w.feed.Completed() {
		if times != 1 {
			w.t.Errorf("%s was fetched %d times", file, times)
		}
	}
}

// padded is a version number as keys spell it.
func padded(n int64) string { return fmt.Sprintf("%010d", n) }
