package mirror

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"feedmirror/internal/fault"
)

// Exit codes of the command line, in the order in which the first that applies is taken.
const (
	ExitDone        = 0
	ExitFailed      = 1 // some dataset failed, the rest is done
	ExitUsage       = 2
	ExitFindings    = 3
	ExitFeed        = 4
	ExitBucket      = 5
	ExitStopped     = 6 // a budget is used up, a version is being rebuilt, a prune is unfinished
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// ErrInterrupted and ErrTerminated are the causes with which a pass is cancelled by a signal,
// ErrBudget the one of a used-up time budget.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrTerminated  = errors.New("terminated")
	ErrBudget      = errors.New("the time budget is used up")
)

// Report is the result of a pass: what --output json prints and what is kept under _mirror/runs.
type Report struct {
	Status   string        `json:"status"` // ok, failed, stopped, interrupted, refused
	Exit     int           `json:"exit"`
	Run      string        `json:"run"`
	Tool     string        `json:"tool"`
	Pass     string        `json:"pass"` // full or incremental
	Started  time.Time     `json:"started"`
	Seconds  float64       `json:"seconds"`
	Datasets DatasetCounts `json:"datasets"`
	Versions VersionCounts `json:"versions"`
	Files    FileCounts    `json:"files"`
	Bytes    ByteCounts    `json:"bytes"`
	Requests RequestCounts `json:"requests"`
	Held     []HeldDataset `json:"held"`
	Failures []Failure     `json:"failures"`
	Notes    []Note        `json:"notes"`
}

// DatasetCounts count datasets; seen is what the pass looked at.
type DatasetCounts struct {
	Seen          int `json:"seen"`
	Changed       int `json:"changed"`
	Failed        int `json:"failed"`
	Held          int `json:"held"`
	Withdrawn     int `json:"withdrawn"`
	Owed          int `json:"owed"`
	Busy          int `json:"busy"`
	NotSubscribed int `json:"notSubscribed"`
}

// VersionCounts count versions.
type VersionCounts struct {
	Committed int `json:"committed"`
	Published int `json:"published"` // moves of a pointer
	Gone      int `json:"gone"`
}

// FileCounts count files: those copied, those that stood already, those that failed.
type FileCounts struct {
	Copied  int64 `json:"copied"`
	Present int64 `json:"present"`
	Failed  int64 `json:"failed"`
}

// ByteCounts count bytes of files. Deduplicated are bytes of attachments that were named but
// needed no copy.
type ByteCounts struct {
	Copied       int64 `json:"copied"`
	Deduplicated int64 `json:"deduplicated"`
}

// RequestCounts count requests by side.
type RequestCounts struct {
	Feed        int64 `json:"feed"`
	Links       int64 `json:"links"`
	Source      int64 `json:"source"`
	BucketRead  int64 `json:"bucketRead"`
	BucketWrite int64 `json:"bucketWrite"`
	BucketList  int64 `json:"bucketList"`
}

// HeldDataset is a dataset whose newest version waits for a person.
type HeldDataset struct {
	Dataset string `json:"dataset"`
	Version int64  `json:"version"`
	Reason  string `json:"reason"`
	Next    string `json:"next"` // the command to type
}

// Failure is one thing that went wrong, for people and programs.
type Failure struct {
	Dataset string `json:"dataset"`
	Version int64  `json:"version,omitempty"`
	Object  string `json:"object"`
	Side    string `json:"side"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Note is something worth telling that is no failure.
type Note struct {
	Dataset string `json:"dataset"`
	Version int64  `json:"version,omitempty"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// failureOf describes err as it happened to a dataset's version.
func failureOf(dataset string, version int64, err error) Failure {
	f := Failure{Dataset: dataset, Version: version, Side: string(fault.SideOf(err)), Kind: string(fault.KindOf(err)), Message: err.Error(), Hint: fault.HintOf(err)}
	var e *fault.Error
	if errors.As(err, &e) {
		f.Object = e.Object
		if f.Version == 0 {
			f.Version = e.Version
		}
	}
	return f
}

// tally collects what the workers of a pass did.
type tally struct {
	mu     sync.Mutex
	report *Report
	// stopped is set by what ends a pass before its end but resumable: exit 6.
	stopped bool
}

func (t *tally) update(change func(*Report)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t.report)
}

func (t *tally) fail(f Failure) {
	t.update(func(r *Report) { r.Failures = append(r.Failures, f) })
}

func (t *tally) note(n Note) {
	t.update(func(r *Report) { r.Notes = append(r.Notes, n) })
}

func (t *tally) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// finish settles status and exit code: the first rule that applies. fatal is what ended the whole
// pass, nil when it went through.
func (t *tally) finish(ctx context.Context, fatal error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.report
	sortReport(r)
	cause := context.Cause(ctx)
	switch {
	case fault.Is(fatal, fault.Usage):
		r.Exit, r.Status = ExitUsage, "refused"
	case fault.Is(fatal, fault.BucketUnfit):
		r.Exit, r.Status = ExitBucket, "refused"
	case fault.Is(fatal, fault.FeedUnfit):
		r.Exit, r.Status = ExitFeed, "refused"
	case errors.Is(cause, ErrInterrupted):
		r.Exit, r.Status = ExitInterrupted, "interrupted"
	case errors.Is(cause, ErrTerminated):
		r.Exit, r.Status = ExitTerminated, "interrupted"
	case fault.Is(fatal, fault.Budget): // such as a lock that a frozen process holds
		r.Exit, r.Status = ExitStopped, "stopped"
	case len(r.Failures) > 0:
		r.Exit, r.Status = ExitFailed, "failed"
	case t.stopped || errors.Is(cause, ErrBudget):
		r.Exit, r.Status = ExitStopped, "stopped"
	default:
		r.Exit, r.Status = ExitDone, "ok"
	}
}

func sortReport(r *Report) {
	slices.SortStableFunc(r.Failures, func(a, b Failure) int {
		if c := strings.Compare(a.Dataset, b.Dataset); c != 0 {
			return c
		}
		return int(a.Version - b.Version)
	})
	slices.SortStableFunc(r.Held, func(a, b HeldDataset) int { return strings.Compare(a.Dataset, b.Dataset) })
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return strings.Compare(a.Dataset, b.Dataset) })
}
