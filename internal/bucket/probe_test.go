package bucket_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

func newLocal(t *testing.T) bucket.Store {
	t.Helper()
	store, err := localstore.New(localstore.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func probeOptions() bucket.ProbeOptions {
	return bucket.ProbeOptions{Run: "run-1", Sleep: func(context.Context, time.Duration) error { return nil }}
}

// misbehaved returns the checks that are not ok, each with its verdict.
func misbehaved(report bucket.ProbeReport) []string {
	bad := []string{}
	for _, finding := range report.Findings {
		if finding.Verdict != bucket.VerdictOK {
			bad = append(bad, finding.Name+": "+string(finding.Verdict))
		}
	}
	slices.Sort(bad)
	return bad
}

// untested is what the local store, which has no raw path, makes the probe say.
const untested = bucket.CheckRefusesWrongBytes + ": not tested"

// probeCase is a store that lacks one thing.
type probeCase struct {
	store func(bucket.Store) bucket.Store
	want  []string
	unfit []string // names in the error
}

// writeCases are about who wins and what is taken.
func writeCases() map[string]probeCase {
	return map[string]probeCase{
		"nothing": {func(s bucket.Store) bucket.Store { return s }, []string{untested}, nil},
		"raw":     {func(s bucket.Store) bucket.Store { return raw{s, true} }, nil, nil},
		"compares nothing": {
			func(s bucket.Store) bucket.Store { return raw{s, false} },
			[]string{bucket.CheckRefusesWrongBytes + ": lacking"}, nil,
		},
		"conditions": {
			func(s bucket.Store) bucket.Store { return &buckettest.IgnoreConditions{Store: s} },
			[]string{
				bucket.CheckAtomicCreate + ": lacking", bucket.CheckCompareAndSwap + ": lacking",
				bucket.CheckConditionalDelete + ": lacking", untested,
			},
			[]string{bucket.CheckAtomicCreate, bucket.CheckCompareAndSwap},
		},
		"atomic create": {
			func(s bucket.Store) bucket.Store {
				return &buckettest.WeakCreate{Store: s, Between: buckettest.Meeting()}
			},
			[]string{bucket.CheckAtomicCreate + ": lacking", untested}, []string{bucket.CheckAtomicCreate},
		},
		"honest answers": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, make: func(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
					info, err := s.Create(ctx, key, content)
					if err == nil && strings.Contains(key, "/create-") {
						err = &fault.Error{Op: "create object", Object: key, Kind: fault.Exists}
					}
					return info, err
				}}
			},
			[]string{bucket.CheckAtomicCreate + ": lacking", untested}, []string{bucket.CheckAtomicCreate},
		},
		"a condition on nothing": {
			func(s bucket.Store) bucket.Store { return overAbsent{s} },
			[]string{bucket.CheckCompareAndSwap + ": lacking", untested}, []string{bucket.CheckCompareAndSwap},
		},
		"atomic swap": {
			func(s bucket.Store) bucket.Store { return &weakSwap{s, buckettest.Meeting()} },
			[]string{bucket.CheckCompareAndSwap + ": lacking", untested}, []string{bucket.CheckCompareAndSwap},
		},
	}
}

// readCases are about what is seen after a write.
func readCases() map[string]probeCase {
	return map[string]probeCase{
		"letter case": {
			func(s bucket.Store) bucket.Store { return foldsCase{s} },
			[]string{bucket.CheckLetterCase + ": warning", untested}, nil,
		},
		"list after write": {
			func(s bucket.Store) bucket.Store { return lateList{s} },
			[]string{bucket.CheckListAfterWrite + ": lacking", untested}, []string{bucket.CheckListAfterWrite},
		},
		"read after write": {
			func(s bucket.Store) bucket.Store {
				return &buckettest.FailNth{Store: s, Op: buckettest.OpOpen, From: 1, Err: &fault.Error{Op: "read object", Kind: fault.NotFound}}
			},
			[]string{bucket.CheckReadAfterWrite + ": lacking", untested}, []string{bucket.CheckReadAfterWrite},
		},
		"missing key": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, stat: func(info bucket.Info, err error) (bucket.Info, error) {
					if fault.Is(err, fault.NotFound) {
						return info, denied(http.StatusForbidden)
					}
					return info, err
				}}
			},
			[]string{bucket.CheckMissing + ": lacking", untested}, []string{bucket.CheckMissing},
		},
		"ranges": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, open: func(ctx context.Context, key string, _, _ int64) (io.ReadCloser, bucket.Info, error) {
					return s.Open(ctx, key, 0, -1)
				}}
			},
			[]string{bucket.CheckRange + ": lacking", untested}, []string{bucket.CheckRange},
		},
	}
}

// otherCases are about what the store says of objects, and deletes.
func otherCases() map[string]probeCase {
	return map[string]probeCase{
		"plain encoding": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, stat: func(info bucket.Info, err error) (bucket.Info, error) {
					info.Encoding = "aws-chunked"
					return info, err
				}}
			},
			[]string{bucket.CheckEncoding + ": lacking", untested}, []string{bucket.CheckEncoding},
		},
		"verified create": {
			func(s bucket.Store) bucket.Store { return changed{Store: s, make: takesAnything(s)} },
			[]string{bucket.CheckLeavesNothing + ": lacking", untested}, []string{bucket.CheckLeavesNothing},
		},
		"conditional delete": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, kill: (&buckettest.IgnoreConditions{Store: s}).Delete}
			},
			[]string{bucket.CheckConditionalDelete + ": lacking", untested}, nil,
		},
		"conditional delete that was not promised": {
			func(s bucket.Store) bucket.Store {
				return changed{
					Store: s, kill: (&buckettest.IgnoreConditions{Store: s}).Delete,
					says: func(g *bucket.Guarantees) { g.ConditionalDelete = false },
				}
			},
			[]string{bucket.CheckConditionalDelete + ": warning", untested}, nil,
		},
		"right checksum": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, stat: func(info bucket.Info, err error) (bucket.Info, error) {
					info.Checksum = "crc32c:00000000"
					return info, err
				}}
			},
			[]string{bucket.CheckAttests + ": lacking", untested}, nil,
		},
		"declared checksum": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, says: func(g *bucket.Guarantees) { g.Attests = "sha256" }}
			},
			[]string{bucket.CheckAttests + ": lacking", untested}, nil,
		},
		"right clock": {
			func(s bucket.Store) bucket.Store {
				return changed{Store: s, stat: func(info bucket.Info, err error) (bucket.Info, error) {
					info.Modified = info.Modified.Add(-time.Hour)
					return info, err
				}}
			},
			[]string{bucket.CheckClock + ": warning", untested}, nil,
		},
		"deletes": {
			func(s bucket.Store) bucket.Store { return buckettest.NoDelete{Store: s} },
			[]string{
				bucket.CheckCleanUp + ": warning", bucket.CheckConditionalDelete + ": not tested",
				bucket.CheckDelete + ": warning", untested,
			}, nil,
		},
	}
}

// Each store lacks one thing, and the probe says just that.
func TestProbeNamesWhatIsLacking(t *testing.T) {
	cases := writeCases()
	maps.Copy(cases, readCases())
	maps.Copy(cases, otherCases())
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			report, err := bucket.Probe(t.Context(), test.store(newLocal(t)), probeOptions())
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(test.want)
			if got := misbehaved(report); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			checkUnfit(t, report, test.unfit)
			checkTold(t, report, name)
			for _, finding := range report.Findings {
				if !strings.HasSuffix(finding.Text, ".") {
					t.Errorf("%s has no sentence: %q", finding.Name, finding.Text)
				}
			}
		})
	}
}

// checkTold holds the sentence of a race against what its store did.
func checkTold(t *testing.T, report bucket.ProbeReport, name string) {
	t.Helper()
	want := map[string][2]string{
		"atomic create":          {bucket.CheckAtomicCreate, "writers at once were told that they had won"},
		"atomic swap":            {bucket.CheckCompareAndSwap, "writers at once were told that they had won"},
		"honest answers":         {bucket.CheckAtomicCreate, "told that it had lost was stored"},
		"a condition on nothing": {bucket.CheckCompareAndSwap, "expected nothing went through"},
		"conditions":             {bucket.CheckAtomicCreate, "taken could be created again"},
	}
	told, asked := want[name]
	if !asked {
		return
	}
	if finding, _ := report.Finding(told[0]); !strings.Contains(finding.Text, told[1]) {
		t.Errorf("%s says %q, want %q in it", told[0], finding.Text, told[1])
	}
}

func checkUnfit(t *testing.T, report bucket.ProbeReport, names []string) {
	t.Helper()
	err := report.Unfit(false)
	if len(names) == 0 {
		if err != nil {
			t.Errorf("unfit: %v", err)
		}
		return
	}
	var unfit *fault.Error
	if !errors.As(err, &unfit) || unfit.Kind != fault.BucketUnfit || unfit.Hint == "" {
		t.Fatalf("got %v, want an unfit bucket with a hint", err)
	}
	if unfit.Object != strings.Join(names, ", ") {
		t.Errorf("unfit for %q, want %q", unfit.Object, names)
	}
}

// The probe stays under its own folder and takes away what it wrote, also when it is interrupted.
func TestProbeCleansUp(t *testing.T) {
	store := newLocal(t)
	if _, err := bucket.CreateDocument(t.Context(), store, "versions/theirs", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, interruptAt := range []int64{0, 9} {
		ctx, cancel := context.WithCancel(t.Context())
		seen := &recorder{Store: store, cancelAt: interruptAt, cancel: cancel}
		_, err := bucket.Probe(ctx, seen, probeOptions())
		if (err != nil) != (interruptAt > 0) {
			t.Errorf("interrupted at write %d: %v", interruptAt, err)
		}
		cancel()
		for _, key := range seen.keys {
			if !strings.HasPrefix(key, manifest.DoctorPrefix+"run-1/") {
				t.Errorf("the probe wrote %q", key)
			}
		}
		for info, err := range store.List(t.Context(), "", "") {
			if err != nil || info.Key != "versions/theirs" {
				t.Errorf("%q is there after the probe (%v)", info.Key, err)
			}
		}
	}
}

// recorder notes the keys that are written, and cancels at the Nth write.
type recorder struct {
	bucket.Store
	mu       sync.Mutex
	keys     []string
	cancelAt int64
	cancel   func()
}

func (r *recorder) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, key)
	if int64(len(r.keys)) == r.cancelAt {
		r.cancel()
	}
}

func (r *recorder) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	r.note(key)
	return r.Store.Create(ctx, key, content)
}

func (r *recorder) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	r.note(key)
	return r.Store.Swap(ctx, key, old, data)
}

func (r *recorder) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	r.note(key)
	return r.Store.Delete(ctx, key, tag)
}

// A bucket that refuses the first write is unfit, with the store's own hint.
func TestProbeOfARefusingBucket(t *testing.T) {
	for _, op := range []buckettest.Op{buckettest.OpCreate, buckettest.OpSwap} {
		store := &buckettest.FailNth{Store: newLocal(t), Op: op, From: 1, To: 1 << 30, Err: denied(http.StatusForbidden)}
		_, err := bucket.Probe(t.Context(), store, probeOptions())
		if !fault.Is(err, fault.BucketUnfit) || fault.HintOf(err) != "Ask for the right." {
			t.Errorf("%s refused: got %v (hint %q)", op, err, fault.HintOf(err))
		}
	}
	store := &buckettest.FailNth{Store: newLocal(t), Op: buckettest.OpCreate, From: 1}
	if _, err := bucket.Probe(t.Context(), store, probeOptions()); err != nil {
		t.Errorf("a store that is down for a moment is called %v", err)
	}
}

// Races that the store does not decide are run again after the pause that stores ask for.
func TestProbeWaitsForAnUndecidedRace(t *testing.T) {
	var pauses []time.Duration
	options := probeOptions()
	options.Sleep = func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}
	busy := &fault.Error{Op: "create object", Kind: fault.Transient, Status: http.StatusTooManyRequests}
	// The first create is the probe's own object, the second meets it, then come two rivals.
	store := &buckettest.FailNth{Store: newLocal(t), Op: buckettest.OpCreate, From: 3, To: 4, Err: busy}
	report, err := bucket.Probe(t.Context(), store, options)
	if err != nil || report.Unfit(false) != nil {
		t.Fatalf("%v, %v", err, report.Unfit(false))
	}
	if len(pauses) != 1 || pauses[0] < time.Second {
		t.Errorf("paused %v, want once for at least a second", pauses)
	}
	store = &buckettest.FailNth{Store: newLocal(t), Op: buckettest.OpCreate, From: 3, To: 10, Err: busy}
	report, err = bucket.Probe(t.Context(), store, options)
	if err != nil || !fault.Is(report.Unfit(false), fault.BucketUnfit) {
		t.Errorf("a store that never decides: %v, %v", err, report.Unfit(false))
	}
}

// TestProbeOutlivesALostAnswer loses the answer to each of its writes in turn.
func TestProbeOutlivesALostAnswer(t *testing.T) {
	counter := &buckettest.CrashAfterNthWrite{Store: newLocal(t)}
	if _, err := bucket.Probe(t.Context(), counter, probeOptions()); err != nil {
		t.Fatal(err)
	}
	for nth := int64(1); nth <= counter.Writes(); nth++ {
		store := newLocal(t)
		report, err := bucket.Probe(t.Context(), &buckettest.LostAnswer{Store: store, Nth: nth}, probeOptions())
		if err != nil || report.Unfit(false) != nil {
			t.Errorf("write %d: %v, %v", nth, err, report.Unfit(false))
		}
		if bad := slices.DeleteFunc(misbehaved(report), func(s string) bool { return s == untested || s == bucket.CheckCleanUp+": warning" }); len(bad) > 0 {
			t.Errorf("write %d: %v", nth, bad)
		}
		for info, err := range store.List(t.Context(), "", "") {
			t.Errorf("write %d left %s, %v", nth, info.Key, err)
		}
	}
}

// TestProbeGivesUpOnAStoreThatStaysAway: a probe is repeated, each in a folder of its own.
func TestProbeGivesUpOnAStoreThatStaysAway(t *testing.T) {
	store := &buckettest.FailNth{Store: newLocal(t), Op: buckettest.OpSwap, From: 1, To: 1 << 30}
	report, err := bucket.Probe(t.Context(), store, probeOptions())
	if !fault.Is(err, fault.Transient) || report.Prefix != "_mirror/doctor/run-1-3/" {
		t.Errorf("it ended in %s with %v", report.Prefix, err)
	}
}

func TestProbeNeedsARun(t *testing.T) {
	for _, run := range []string{"", "a/b"} {
		if _, err := bucket.Probe(t.Context(), newLocal(t), bucket.ProbeOptions{Run: run}); err == nil {
			t.Errorf("run %q was taken", run)
		}
	}
}
