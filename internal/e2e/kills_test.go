package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
)

const (
	// killTTL is how long a killed run's leases last: the shortest that the program takes.
	killTTL = time.Second
	// killsInOne is how many kills one bucket sees before a new one begins.
	killsInOne = 20
)

// seedVariable repeats the moments of an earlier run, as far as the machine lets it.
const seedVariable = "FEEDMIRROR_SEED"

func newSeed(t *testing.T, tally *evidence.Tally) uint64 {
	t.Helper()
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	tally.Note("seed %d", seed)
	return seed
}

// TestKillsAtRandomMomentsLoseNothing kills the program again and again while a bucket grows. After
// each kill the bucket keeps every promise, and the next runs fetch nothing that stands.
func TestKillsAtRandomMomentsLoseNothing(t *testing.T) {
	t.Parallel()
	stores := []struct {
		row         string
		open        func(*testing.T) place
		short, long int
		flags       []string
	}{
		{"kills-local", folderPlace, 5, 200, nil},
		{"kills-versitygw", places()["versitygw"], 2, 50, nil},
		{"kills-weak-locking", weakPlace, 1, 20, []string{"--accept-weak-locking"}},
	}
	for _, store := range stores {
		t.Run(store.row, func(t *testing.T) {
			t.Parallel()
			tally := evidence.Count(t, store.row)
			seed := newSeed(t, tally)
			done := &killCounts{byCommand: map[string]int{}}
			t.Cleanup(func() { tally.Note("%s", done.String()) })
			left := evidence.Size(store.short, store.long)
			for n := 0; left > 0; n++ {
				share := min(left, killsInOne)
				left -= share
				t.Run(fmt.Sprintf("bucket %d", n), func(t *testing.T) {
					t.Parallel()
					w := newKillWorld(t, store.open(t), rand.New(rand.NewPCG(seed, uint64(n))), store.flags...)
					w.counts = done
					for hits := 0; hits < share; {
						if w.trial(syscall.SIGKILL) {
							hits++
							tally.Add(1)
						}
					}
					w.settle()
				})
			}
		})
	}
}

// TestTerminationsAtRandomMoments sends SIGTERM instead: the program ends in time with 143, and gives
// its leases back.
func TestTerminationsAtRandomMoments(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "terminations")
	seed := newSeed(t, tally)
	stores := map[string]struct {
		open        func(*testing.T) place
		short, long int
	}{"folder": {folderPlace, 2, 15}, "versitygw": {places()["versitygw"], 1, 15}}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKillWorld(t, store.open(t), rand.New(rand.NewPCG(seed, uint64(len(name)))))
			w.onlySync = true
			for hits := 0; hits < evidence.Size(store.short, store.long); {
				if w.trial(syscall.SIGTERM) {
					hits++
					tally.Add(1)
				}
			}
			w.settle()
		})
	}
}

// killCounts say what was killed.
type killCounts struct {
	mu        sync.Mutex
	byCommand map[string]int
	late      int // runs that were over before their moment
}

func (c *killCounts) add(command string, hit bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hit {
		c.byCommand[command]++
	} else {
		c.late++
	}
}

// String says it for the evidence.
func (c *killCounts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	for _, command := range []string{"sync", "approve", "prune"} {
		if n := c.byCommand[command]; n > 0 {
			text += fmt.Sprintf("%s %d, ", command, n)
		}
	}
	return fmt.Sprintf("%s%d runs were over before their moment and do not count", text, c.late)
}

// release releases the next version of a life that has everything in it.
func (w *killWorld) release() {
	w.t.Helper()
	w.step++
	specs := []feedsim.ReleaseSpec{
		{Add: 2, Change: 1}, {Minor: true, Add: 1}, {ReplaceIDs: true}, {Remove: 1, SkipNumbers: 2}, {Empty: true}, {Major: true}, {Change: 2},
	}
	w.world.release(w.permits, specs[w.step%len(specs)])
	if w.step%3 == 0 {
		w.world.release(w.zoning, feedsim.ReleaseSpec{Add: 1, ChangeSource: w.step%2 == 0})
	}
	if w.step%11 == 7 { // the newest is taken back and rebuilt
		if err := w.permits.ReleaseAgain(w.permits.Current()); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.permits.ReleaseRebuild(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// choose returns the command of a trial.
func (w *killWorld) choose() []string {
	if w.onlySync {
		return w.syncLine()
	}
	switch n := w.random.IntN(10); {
	case n < 2 && w.held():
		return []string{"approve", permits}
	case n < 4 && w.pruning:
		return []string{"prune", "--resume"}
	case n == 4 && w.stands("_mirror/layout.json") && !w.pruning:
		return []string{"prune", "--keep-versions", "2", "--grace", "0s", "--apply"}
	case n == 5:
		return append(w.syncLine(), "--full")
	}
	return w.syncLine()
}

func (w *killWorld) syncLine() []string {
	return append([]string{"sync", "--output", "json", "--lease-ttl", killTTL.String()}, w.flags...)
}

// mayEnd tells whether a run that was left alone may end so.
func (w *killWorld) mayEnd(command string, exit int) bool {
	return exit == 0 || exit == 6 && command == "sync" && w.pruning // a version waits for the end of the prune
}

// settle lets the next runs end in peace: nothing is owed, all is published, an audit reads it all.
func (w *killWorld) settle() {
	w.t.Helper()
	w.waitForLeases()
	if w.pruning {
		w.run(0, w.with("prune", "--resume")...)
		w.pruning = false
	}
	w.observed(w.syncLine(), func(line []string) { w.run(0, line...) })
	for w.held() { // behind each MAJOR there may be another
		w.run(0, w.with("approve", permits)...)
		w.now = w.look()
	}
	r := decode[report](w.t, w.run(0, w.syncLine()...))
	if r.Datasets.Owed != 0 || r.Datasets.Failed != 0 || r.Datasets.Busy != 0 || r.Files.Copied != 0 {
		w.t.Errorf("the last run: %+v", r)
	}
	w.published(permits, w.permits.Current())
	w.published(zoning, w.zoning.Current())
	w.run(0, "verify", "--level", "bytes")
	if stands := w.staging(); len(stands) > 0 {
		w.t.Errorf("staging files stay: %v", stands)
	}
}

func (w *killWorld) with(line ...string) []string { return slices.Concat(line, w.flags) }
