package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// The races of one property: two writers often, more of them less often.
func raceSizes() []int { return []int{2, 2, 2, 8, 8} }

// raceTries is how often a race is run that the store did not decide.
const raceTries = 4

// race is one race over one key.
type race struct {
	// write is what writer i does; lost is the kind of error that tells it that it lost.
	write func(ctx context.Context, i int) error
	lost  fault.Kind
	key   string
}

// outcome is how a race ended.
type outcome struct {
	problem   string // what the store did wrong; empty when it did not
	undecided bool   // nobody won, and nothing was written
}

// run lets n writers go at once and looks at what stands afterwards.
func (r race) run(ctx context.Context, store Reader, n int) (outcome, error) {
	errs := make([]error, n)
	start, done := make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			<-start
			errs[i] = r.write(ctx, i)
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return r.judge(ctx, store, errs)
}

// judge compares what the writers were told with what stands.
func (r race) judge(ctx context.Context, store Reader, errs []error) (outcome, error) {
	winner, winners := -1, 0
	told := make(map[string]error) // bytes of a writer: what it was told
	for i, err := range errs {
		told[string(raceBytes(i))] = err
		switch {
		case err == nil:
			winner = i
			winners++
		case unclear(err) || fault.Is(err, r.lost):
		default:
			return outcome{}, err
		}
	}
	if winners > 1 {
		return outcome{problem: fmt.Sprintf("%d of %d writers at once were told that they had won", winners, len(errs))}, nil
	}
	stands, _, err := ReadAll(ctx, store, r.key, 1<<10)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return outcome{}, err
	}
	if winners == 1 {
		if bytes.Equal(stands, raceBytes(winner)) {
			return outcome{}, nil
		}
		return outcome{problem: "a writer that was told that it had won was overwritten"}, nil
	}
	answer, wrote := told[string(stands)]
	if wrote && !unclear(answer) {
		return outcome{problem: "a writer that was told that it had lost was stored"}, nil
	}
	return outcome{undecided: !wrote}, nil
}

// unclear reports whether a writer cannot know from err whether it won.
func unclear(err error) bool {
	return fault.Is(err, fault.Transient) || fault.Is(err, fault.Contended)
}

// raceBytes are what writer i writes.
func raceBytes(i int) []byte { return fmt.Appendf(nil, `{"writer":%d}`, i) }

// races runs all races of one property and returns what the store did wrong, or "".
func (p *probe) races(ctx context.Context, name string, prepare func(key string) (race, error)) (string, error) {
	for round, n := range raceSizes() {
		decided := false
		for try := 0; try < raceTries && !decided; try++ {
			one, err := prepare(p.key(fmt.Sprintf("%s-%d-%d.json", name, round, try)))
			if err == nil && try > 0 { // what was prepared may be the one write of its second
				err = p.options.wait(ctx)
			}
			if err != nil {
				return "", err
			}
			end, err := one.run(ctx, p.store, n)
			if err != nil {
				return "", err
			}
			if end.problem != "" {
				return end.problem, nil
			}
			decided = !end.undecided
		}
		if !decided {
			return "no writer won, however often it was tried", nil
		}
	}
	return "", nil
}

// checkCreate creates a key that is taken, then races for free ones.
func (p *probe) checkCreate(ctx context.Context) error {
	problem, err := p.createTaken(ctx)
	if err == nil && problem == "" {
		problem, err = p.races(ctx, "create", func(key string) (race, error) {
			return race{key: key, lost: fault.Exists, write: func(ctx context.Context, i int) error {
				_, err := CreateDocument(ctx, p.store, key, raceBytes(i))
				return err
			}}, nil
		})
	}
	if err != nil {
		return err
	}
	p.report.Observed.AtomicCreate = problem == ""
	text := "Of many writers that create one key, one wins."
	if problem != "" {
		text = "Creating a key is not safe: " + problem + "."
	}
	p.addNeeded(CheckAtomicCreate, yesNo(p.declared.AtomicCreate), problem == "", text)
	return nil
}

func (p *probe) createTaken(ctx context.Context) (string, error) {
	key := p.key("first.txt")
	err := p.patient(ctx, func() error {
		_, err := CreateDocument(ctx, p.store, key, []byte("overwritten"))
		return err
	})
	if err != nil && !fault.Is(err, fault.Exists) {
		return "", err
	}
	if err == nil {
		return "a key that was taken could be created again", nil
	}
	stands, _, err := ReadAll(ctx, p.store, key, 1<<10)
	if err != nil {
		return "", err
	}
	if string(stands) != probeData {
		return "a refused create changed what stood", nil
	}
	return "", nil
}

// checkSwap swaps with a tag that is stale, then races with one that is not.
func (p *probe) checkSwap(ctx context.Context) error {
	problem, err := p.swapStale(ctx)
	if err == nil && problem == "" {
		problem, err = p.races(ctx, "swap", func(key string) (race, error) {
			old, err := p.store.Swap(ctx, key, Absent, []byte("{}"))
			if err != nil {
				return race{}, err
			}
			return race{key: key, lost: fault.Conflict, write: func(ctx context.Context, i int) error {
				_, err := p.store.Swap(ctx, key, old, raceBytes(i))
				return err
			}}, nil
		})
	}
	if err != nil {
		return err
	}
	p.report.Observed.CompareAndSwap = problem == ""
	text := "Of many writers that replace one document, one wins, and a stale one changes nothing."
	if problem != "" {
		text = "Replacing a document is not safe: " + problem + "."
	}
	p.addNeeded(CheckCompareAndSwap, yesNo(p.declared.CompareAndSwap), problem == "", text)
	return nil
}

// swapTwice writes a document and replaces it, and returns both tags. A replacement whose answer was
// lost may have been carried out: a refusal that follows says nothing then, and the lost answer is
// the error.
func (p *probe) swapTwice(ctx context.Context, key string) (first, second Tag, err error) {
	if first, err = p.store.Swap(ctx, key, Absent, []byte(`{"n":1}`)); err != nil {
		return "", "", err
	}
	var lost error
	for try := 1; ; try++ {
		second, err = p.store.Swap(ctx, key, first, []byte(`{"n":2}`))
		if lost != nil && fault.Is(err, fault.Conflict) {
			return "", "", lost
		}
		if !unclear(err) || try == raceTries {
			return first, second, err
		}
		lost = err
		if err := p.options.wait(ctx); err != nil {
			return "", "", err
		}
	}
}

// patient sends a write again that the store did not decide: some take one write a second of a key.
func (p *probe) patient(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if !unclear(err) || try == raceTries {
			return err
		}
		if err := p.options.wait(ctx); err != nil {
			return err
		}
	}
}

func (p *probe) swapStale(ctx context.Context) (string, error) {
	key := p.key("stale.json")
	first, _, err := p.swapTwice(ctx, key)
	if err != nil {
		return "", err
	}
	_, err = p.store.Swap(ctx, key, first, []byte(`{"n":3}`))
	if err == nil {
		return "a swap with a stale tag went through", nil
	}
	_, absent := p.store.Swap(ctx, key, Absent, []byte(`{"n":4}`))
	if absent == nil {
		return "a swap that expected nothing went through where something stood", nil
	}
	stands, _, err := ReadAll(ctx, p.store, key, 1<<10)
	if err != nil {
		return "", err
	}
	if string(stands) != `{"n":2}` {
		return "a refused swap changed what stood", nil
	}
	return "", nil
}

// wrongBytes are sent, rightBytes are announced; they have one length.
const (
	wrongBytes = "these bytes are wrong"
	rightBytes = "these bytes are right"
)

// checkLeavesNothing creates with bytes that do not hash to what was named.
func (p *probe) checkLeavesNothing(ctx context.Context) error {
	key := p.key("wrong.bin")
	_, err := p.store.Create(ctx, key, Content{
		Size: int64(len(wrongBytes)), SHA256: manifest.SumBytes([]byte(rightBytes)), Body: strings.NewReader(wrongBytes),
	})
	stands, statErr := p.stands(ctx, key)
	if statErr != nil {
		return statErr
	}
	holds := err != nil && !stands
	text := "A create with wrong bytes leaves nothing."
	if !holds {
		text = "A create with wrong bytes left an object, or was called a success."
	}
	p.addNeeded(CheckLeavesNothing, "", holds, text)
	return nil
}

// checkRefuses sends wrong bytes past our own check.
func (p *probe) checkRefuses(ctx context.Context) error {
	raw, ok := p.store.(RawCreator)
	if !ok {
		p.add(ProbeFinding{
			Name: CheckRefusesWrongBytes, Declared: yesNo(p.declared.RefusesWrongBytes), Observed: "unknown", Verdict: VerdictNotTested,
			Text: "Whether the store itself compares bytes cannot be tested here; the mirror compares them before they are visible.",
		})
		p.report.Observed.RefusesWrongBytes = p.declared.RefusesWrongBytes
		return nil
	}
	key := p.key("raw.bin")
	err := raw.CreateRaw(ctx, key, []byte(wrongBytes), []byte(rightBytes))
	if fault.Is(err, fault.Transient) {
		return err
	}
	stands, statErr := p.stands(ctx, key)
	if statErr != nil {
		return statErr
	}
	holds := err != nil && !stands
	p.report.Observed.RefusesWrongBytes = holds
	text := "The store compares bytes with their checksum and refuses wrong ones."
	if !holds {
		text = "The store takes bytes that do not match their checksum; only the mirror's own check stands before it."
	}
	p.addUseful(CheckRefusesWrongBytes, p.declared.RefusesWrongBytes, holds, text)
	return nil
}

// stands reports whether something is there. A store that hides what is missing counts as empty;
// that it does so is a finding of its own.
func (p *probe) stands(ctx context.Context, key string) (bool, error) {
	_, err := p.store.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Denied) {
		return false, nil
	}
	return err == nil, err
}

// checkDelete deletes with a stale tag, then with the right one.
func (p *probe) checkDelete(ctx context.Context) error {
	key := p.key("delete.json")
	first, second, err := p.swapTwice(ctx, key)
	if err != nil {
		return err
	}
	stale := p.patient(ctx, func() error { return p.store.Delete(ctx, key, first) })
	if fault.Is(stale, fault.Denied) {
		p.addNoDelete(stale)
		return nil
	}
	stands, err := p.stands(ctx, key)
	if err != nil {
		return err
	}
	p.report.Observed.ConditionalDelete = stale != nil && stands
	text := "A delete with a stale tag deletes nothing."
	if !p.report.Observed.ConditionalDelete {
		text = "A delete with a stale tag deletes what stands: an unfinished prune must be closed by a person."
	}
	p.addUseful(CheckConditionalDelete, p.declared.ConditionalDelete, p.report.Observed.ConditionalDelete, text)
	if err := p.patient(ctx, func() error { return p.store.Delete(ctx, key, second) }); err != nil {
		if !fault.Is(err, fault.Denied) {
			return err
		}
		p.addNoDelete(err)
		return nil
	}
	if stands, err = p.stands(ctx, key); err != nil {
		return err
	}
	text = "A deleted object is gone at once."
	if stands {
		text = "A deleted object can still be read."
	}
	p.add(ProbeFinding{Name: CheckDelete, Observed: yesNo(!stands), Verdict: verdictOf(!stands, VerdictWarning), Text: text})
	return nil
}

// addNoDelete tells of a store that refuses deletes: retention, or a right that is missing.
func (p *probe) addNoDelete(cause error) {
	if !hasFinding(p.report, CheckConditionalDelete) {
		p.add(ProbeFinding{
			Name: CheckConditionalDelete, Declared: yesNo(p.declared.ConditionalDelete), Observed: "unknown",
			Verdict: VerdictNotTested, Text: "Deletes are refused, so a stale one could not be tried.",
		})
		p.report.Observed.ConditionalDelete = p.declared.ConditionalDelete
	}
	var refused *fault.Error
	detail := ""
	if errors.As(cause, &refused) && refused.Status != 0 {
		detail = fmt.Sprintf(" (status %d)", refused.Status)
	}
	p.add(ProbeFinding{
		Name: CheckDelete, Observed: "no", Verdict: VerdictWarning,
		Text: "The store refuses deletes" + detail + ": sync works, prune will not.",
	})
}

func hasFinding(report ProbeReport, name string) bool {
	_, found := report.Finding(name)
	return found
}
