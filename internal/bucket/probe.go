package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Verdict is what a probe found out about one property.
type Verdict string

// The verdicts. A warning is something that works less well than it could.
const (
	VerdictOK        Verdict = "ok"
	VerdictLacking   Verdict = "lacking"
	VerdictNotTested Verdict = "not tested"
	VerdictWarning   Verdict = "warning"
)

// The properties that Probe looks at.
const (
	CheckReadAfterWrite    = "read-after-write"
	CheckListAfterWrite    = "list-after-write"
	CheckMissing           = "missing-key"
	CheckLetterCase        = "letter-case"
	CheckRange             = "range-read"
	CheckEncoding          = "no-content-encoding"
	CheckAttests           = "attests"
	CheckClock             = "clock"
	CheckAtomicCreate      = "atomic-create"
	CheckCompareAndSwap    = "compare-and-swap"
	CheckLeavesNothing     = "failed-create-leaves-nothing"
	CheckRefusesWrongBytes = "refuses-wrong-bytes"
	CheckConditionalDelete = "conditional-delete"
	CheckDelete            = "delete"
	CheckCleanUp           = "clean-up"
)

// maxSkew is how far the store's clock may be from ours before it is worth a word. Nothing rests
// on clocks; signatures and the times in reports are off by as much.
const maxSkew = time.Minute

// ProbeOptions name a run of Probe.
type ProbeOptions struct {
	// Run is the folder under _mirror/doctor/ that the probe writes to; no two runs share one. A probe
	// that is repeated adds "-2".
	Run string
	// Pause is how long a race waits that the store refused to decide, and a probe before it is
	// repeated; 0: 1.1 s, since some stores take one write a second of one key.
	Pause time.Duration
	// Now and Sleep are replaced in tests; nil: the real ones.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// ProbeFinding is one property: what the store's adapter declares, what was seen.
type ProbeFinding struct {
	Name     string  `json:"name"`
	Declared string  `json:"declared,omitempty"` // "yes", "no" or a value; empty when nothing is declared of it
	Observed string  `json:"observed"`
	Verdict  Verdict `json:"verdict"`
	Needed   bool    `json:"needed"` // the mirror does not run where this is lacking
	Text     string  `json:"text"`   // one sentence for people
}

// ProbeReport is what Probe found.
type ProbeReport struct {
	Prefix   string         `json:"prefix"`   // where it wrote
	Findings []ProbeFinding `json:"findings"` // in the order of the checks
	// Observed are the guarantees as they were seen; where one could not be tested, as declared.
	Observed Guarantees `json:"observed"`
	// SkewSeconds is the store's clock less ours, as far as it can be told: stores give whole
	// seconds.
	SkewSeconds float64  `json:"skewSeconds"`
	Leftovers   []string `json:"leftovers,omitempty"` // keys that could not be deleted
}

// Finding returns the finding of that name; false when the probe did not get that far.
func (r ProbeReport) Finding(name string) (ProbeFinding, bool) {
	for _, finding := range r.Findings {
		if finding.Name == name {
			return finding, true
		}
	}
	return ProbeFinding{}, false
}

// Unfit returns a fault.BucketUnfit that names what the mirror needs and the store lacks, nil when
// there is nothing. With acceptWeakLocking a store may ignore conditions.
func (r ProbeReport) Unfit(acceptWeakLocking bool) error {
	var names, texts []string
	onlyLocking := true
	for _, finding := range r.Findings {
		locking := finding.Name == CheckAtomicCreate || finding.Name == CheckCompareAndSwap
		if finding.Needed && finding.Verdict == VerdictLacking && (!locking || !acceptWeakLocking) {
			names = append(names, finding.Name)
			texts = append(texts, finding.Text)
			onlyLocking = onlyLocking && locking
		}
	}
	if len(names) == 0 {
		return nil
	}
	hint := "Use a store that keeps these promises, or another endpoint or version of this one; `mirror doctor` shows all of them."
	if onlyLocking {
		hint += " " + WeakLockingHint
	}
	return &fault.Error{
		Op: "probe bucket", Object: strings.Join(names, ", "), Side: fault.SideBucket,
		Kind: fault.BucketUnfit, Err: errors.New(strings.Join(texts, " ")), Hint: hint,
	}
}

// Probe finds out what a store really does, by doing it under _mirror/doctor/<run>/. A store that
// misbehaves is a finding, not an error; the error says that the probe could not go on, and is a
// fault.BucketUnfit when the store refused the first write. The report holds what was found until
// then. Give it a store without WithRetry: a repeated request would hide what it looks for.
//
// A store that could not be reached for a moment, or whose answer to a write was lost, is probed
// once more from the start, in a folder of its own: half a probe proves nothing.
func Probe(ctx context.Context, store Store, options ProbeOptions) (ProbeReport, error) {
	run := options.Run
	var leftovers []string
	for try := 1; ; try++ {
		p, err := newProbe(store, options)
		if err != nil {
			return ProbeReport{}, err
		}
		err = p.run(ctx)
		p.cleanUp(ctx)
		p.report.Leftovers = append(leftovers, p.report.Leftovers...)
		if !Retryable(err) || try == probeTries || p.options.wait(ctx) != nil {
			return p.report, err
		}
		leftovers = p.report.Leftovers
		options.Run = fmt.Sprintf("%s-%d", run, try+1)
	}
}

// probeTries is how often a store is probed that could not be reached for a moment.
const probeTries = 3

// wait waits for the pause that stores ask for.
func (o ProbeOptions) wait(ctx context.Context) error {
	return Policy{Now: o.Now, Sleep: o.Sleep}.wait(ctx, o.Pause)
}

// probe is one run of Probe.
type probe struct {
	store    Store
	options  ProbeOptions
	declared Guarantees
	report   ProbeReport
}

func newProbe(store Store, options ProbeOptions) (*probe, error) {
	if options.Run == "" || strings.Contains(options.Run, "/") {
		return nil, &fault.Error{
			Op: "probe bucket", Object: options.Run, Side: fault.SideConfig, Kind: fault.Internal,
			Err: errors.New("the name of a run is empty or has a slash"),
		}
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Pause <= 0 {
		options.Pause = 1100 * time.Millisecond
	}
	p := &probe{store: store, options: options, declared: store.Guarantees()}
	p.report.Prefix = manifest.DoctorPrefix + options.Run + "/"
	p.report.Observed.MaxSinglePut, p.report.Observed.FreshTags = p.declared.MaxSinglePut, p.declared.FreshTags
	return p, nil
}

func (p *probe) key(name string) string { return p.report.Prefix + name }

func (p *probe) run(ctx context.Context) error {
	steps := []struct {
		name string
		run  func(ctx context.Context) error
	}{
		{"write", p.checkWrite},
		{"list", p.checkList},
		{"missing key", p.checkMissing},
		{"range", p.checkRange},
		{"create", p.checkCreate},
		{"swap", p.checkSwap},
		{"wrong bytes", p.checkLeavesNothing},
		{"wrong bytes at the store", p.checkRefuses},
		{"delete", p.checkDelete},
	}
	for _, step := range steps {
		err := step.run(ctx)
		if fault.Is(err, fault.Denied) {
			return &fault.Error{
				Op: "probe bucket", Object: step.name, Side: fault.SideBucket, Kind: fault.BucketUnfit,
				Err: err, Hint: fault.HintOf(err),
			}
		}
		if err != nil {
			return fmt.Errorf("probe bucket: %s: %w", step.name, err)
		}
	}
	return nil
}

func (p *probe) add(finding ProbeFinding) { p.report.Findings = append(p.report.Findings, finding) }

// addNeeded adds a property that the mirror cannot do without.
func (p *probe) addNeeded(name, declared string, holds bool, text string) {
	p.add(ProbeFinding{
		Name: name, Declared: declared, Observed: yesNo(holds), Needed: true, Text: text,
		Verdict: verdictOf(holds, VerdictLacking),
	})
}

// addUseful adds a property whose absence costs something: it is lacking where it was declared,
// and a warning where nobody promised it.
func (p *probe) addUseful(name string, declared, holds bool, text string) {
	absent := VerdictWarning
	if declared {
		absent = VerdictLacking
	}
	p.add(ProbeFinding{
		Name: name, Declared: yesNo(declared), Observed: yesNo(holds), Text: text,
		Verdict: verdictOf(holds, absent),
	})
}

func verdictOf(holds bool, absent Verdict) Verdict {
	if holds {
		return VerdictOK
	}
	return absent
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// cleanUp removes what the probe wrote, under a context of its own so that an interrupted probe
// leaves nothing either. A store under retention refuses: that is worth a warning, no more.
func (p *probe) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var failure error
	for info, err := range p.store.List(ctx, p.report.Prefix, "") {
		if err == nil {
			err = p.patient(ctx, func() error { return p.store.Delete(ctx, info.Key, info.Tag) })
		}
		if err != nil {
			failure = errors.Join(failure, err)
			if info.Key != "" {
				p.report.Leftovers = append(p.report.Leftovers, info.Key)
			}
		}
	}
	if failure == nil {
		return
	}
	p.add(ProbeFinding{
		Name: CheckCleanUp, Observed: "no", Verdict: VerdictWarning,
		Text: fmt.Sprintf("%d objects of the probe stay under %s; they can be deleted by hand.",
			len(p.report.Leftovers), p.report.Prefix),
	})
}
