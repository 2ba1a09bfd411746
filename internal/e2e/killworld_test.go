package e2e_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// killWorld is a bucket that grows while runs over it are cut off at random moments.
type killWorld struct {
	*world
	random          *rand.Rand
	flags           []string // of every command
	permits, zoning *feedsim.Dataset
	step            int
	onlySync        bool
	counts          *killCounts
	pruning         bool                     // a prune was cut off and is not finished
	typical         map[string]time.Duration // how long a run that is left alone takes, about, by command
	free            time.Time                // when the leases of the last killed run are over
	now             invariant.Snapshot       // as of the last look
	before          invariant.Snapshot       // the same; while a prune is open, from before it
	keys            map[string]string        // of the files that manifests in the bucket name, by feedsim.FileKey
}

func newKillWorld(t *testing.T, at place, random *rand.Rand, flags ...string) *killWorld {
	t.Helper()
	w := &killWorld{world: newWorld(t, at, feedsim.Options{}), random: random, flags: flags, typical: map[string]time.Duration{}, keys: map[string]string{}}
	w.permits = w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 8, Parts: 2}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
	w.zoning = w.dataset(feedsim.DatasetSpec{ID: zoning, Character: feedsim.Archive, Rows: 4}, feedsim.ReleaseSpec{})
	w.now = w.look()
	w.before = w.now
	return w
}

// root returns a folder with what the bucket holds.
func (w *killWorld) root() string {
	w.t.Helper()
	root := w.place.files(w.t)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return w.t.TempDir() // a folder that was never made
	}
	return root
}

// look wants the bucket to keep every promise and returns what it holds.
func (w *killWorld) look() invariant.Snapshot {
	w.t.Helper()
	root := w.root()
	for _, violation := range invariant.Check(invariant.Folder(root)) {
		w.t.Errorf("bucket: %s", violation)
	}
	now, err := invariant.Take(invariant.Folder(root))
	if err != nil {
		w.t.Fatal(err)
	}
	w.manifests(root, now)
	return now
}

// trial starts a run, cuts it off at a random moment, and looks at what is left. It returns false
// when the run was over before.
func (w *killWorld) trial(signal syscall.Signal) bool {
	w.t.Helper()
	if w.random.IntN(2) == 0 || w.step == 0 {
		w.release()
	}
	line := w.choose()
	command := line[0]
	if command == "sync" {
		w.waitForLeases()
	} else {
		line = w.with(line...)
	}
	hit := false
	w.observed(line, func(line []string) { hit = w.cut(command, line, signal) })
	if w.counts != nil {
		w.counts.add(command, hit)
	}
	if w.t.Failed() {
		w.t.FailNow() // the rest would be told again and again
	}
	return hit
}

// cut runs a line and sends the signal at a random moment of how long such a run takes.
func (w *killWorld) cut(command string, line []string, signal syscall.Signal) bool {
	w.t.Helper()
	moment := w.moment(command)
	r := w.start(nil, line...)
	go r.ended()                                    // notes when it is over
	if command == "sync" && w.random.IntN(4) == 0 { // a release in the middle of it
		time.Sleep(moment / 2)
		w.release()
		moment -= moment / 2
	}
	time.Sleep(moment)
	sent := time.Now()
	if err := r.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.t.Fatal(err)
	}
	done := r.wait()
	hit := done.exit == -1
	if signal == syscall.SIGTERM {
		if hit {
			return false // it came before the program listened, and nothing was done yet
		}
		hit = done.exit == 143
		if took := time.Since(sent); hit && took > 10*time.Second {
			w.t.Errorf("ended %s after the signal", took)
		}
		w.leasesFree()
	}
	if command == "prune" {
		w.pruning = done.exit != 0
	}
	switch {
	case hit && signal == syscall.SIGKILL:
		w.free = time.Now().Add(killTTL)
	case !hit && !w.mayEnd(command, done.exit):
		w.t.Errorf("%s ended with %d\n%s%s", strings.Join(line, " "), done.exit, done.out, tail(done.err))
	}
	w.learn(command, hit, done.took)
	return hit
}

// moment returns a random moment of a run.
func (w *killWorld) moment(command string) time.Duration {
	if w.typical[command] == 0 {
		w.typical[command] = 700 * time.Millisecond
	}
	return time.Duration(w.random.Float64() * float64(w.typical[command]))
}

// learn brings what is known of a command's length up to date: a run that was cut off could have gone
// on for longer.
func (w *killWorld) learn(command string, cut bool, took time.Duration) {
	if cut {
		w.typical[command] += w.typical[command] / 20
	} else {
		w.typical[command] = took
	}
}

// leasesFree wants no lease to be held, if there are leases yet.
func (w *killWorld) leasesFree() {
	w.t.Helper()
	if leases, err := filepath.Glob(filepath.Join(w.root(), "_mirror/leases/*.json")); err == nil && len(leases) > 0 {
		w.leasesGivenBack()
	}
}

// waitForLeases waits until the leases of a killed run are over, so that the next run's moment is not
// spent on waiting for them.
func (w *killWorld) waitForLeases() { time.Sleep(time.Until(w.free)) }

// observed does something and wants that it broke no promise and fetched nothing that stood before.
func (w *killWorld) observed(line []string, do func(line []string)) {
	w.t.Helper()
	stood := w.now
	w.feed.ResetLog()
	do(line)
	w.now = w.look()
	w.compare(w.before)
	for file, times := range w.feed.Completed() {
		key := w.keys[file]
		if times > 1 {
			w.t.Errorf("%s was fetched %d times by one run", file, times)
		}
		if _, held := stood.Objects[key]; held && path.Base(file) != "manifest.json" {
			w.t.Errorf("%s was fetched although %s stood", file, key)
		}
		if _, committed := stood.Objects[strings.Replace(key, "manifest.json", "record.json", 1)]; committed && path.Base(file) == "manifest.json" {
			w.t.Errorf("%s was fetched although its record stood", file)
		}
	}
	for _, broken := range w.feed.ViolationsSeen() {
		w.t.Errorf("links host: %+v", broken)
	}
	if !w.pruning {
		w.before = w.now
	}
}

// compare wants that nothing was lost or written over since.
func (w *killWorld) compare(before invariant.Snapshot) {
	w.t.Helper()
	for _, violation := range invariant.Compare(before, w.now) {
		w.t.Errorf("bucket: %s", violation)
	}
}

// manifests notes under which key each file belongs that a manifest in the bucket names.
func (w *killWorld) manifests(root string, now invariant.Snapshot) {
	w.t.Helper()
	for key := range now.Objects {
		dataset, padded, ok := versionOf(key)
		if !ok || w.keys[path.Join(dataset, number(padded), "manifest.json")] != "" {
			continue
		}
		var manifest struct {
			Files       []struct{ Path string }
			Attachments []struct{ File, SHA256 string }
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(key)))
		if err == nil {
			err = json.Unmarshal(data, &manifest)
		}
		if err != nil {
			w.t.Fatalf("read %s: %v", key, err)
		}
		note := func(file, key string) { w.keys[path.Join(dataset, number(padded), file)] = key }
		note("manifest.json", key)
		for _, file := range manifest.Files {
			kind, name, nested := strings.Cut(file.Path, "/")
			if !nested {
				note(file.Path, path.Join(path.Dir(key), file.Path))
				continue
			}
			note(file.Path, path.Join(strings.Replace(kind, "idMap", "id_map", 1), "ploti_dataset_id="+dataset, "ploti_version="+padded, name))
		}
		for _, a := range manifest.Attachments {
			note(a.File, path.Join("attachments/sha256", a.SHA256[:2], a.SHA256))
		}
	}
}

// versionOf splits the key of a version's manifest.
func versionOf(key string) (dataset, padded string, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[0] != "versions" || parts[3] != "manifest.json" {
		return "", "", false
	}
	return parts[1], parts[2], true
}

func number(padded string) string { return strings.TrimLeft(padded, "0") }

// stands reports whether a key held something at the last look.
func (w *killWorld) stands(key string) bool {
	_, stands := w.now.Objects[key]
	return stands
}

// held reports whether permits waits for an approval.
func (w *killWorld) held() bool {
	w.t.Helper()
	if !w.stands("current/" + permits + ".json") {
		return false
	}
	var p pointer
	w.document("current/"+permits+".json", &p)
	return p.Held != nil
}
