package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/audit"
	"feedmirror/internal/audit/ledger"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// VerifyOptions are what an audit of a bucket is made with.
type VerifyOptions struct {
	Audit audit.Options
	Store bucket.Store // counted and retrying
	// MaxAge is how long an object that was found good needs no further check; zero: every object is
	// checked, and no ledger is kept.
	MaxAge time.Duration
	// Repair restores what the audit finds missing or wrong; nil: nothing is restored.
	Repair *RepairOptions
	// Against compares with what the feed still has; nil: the feed is not asked. Nothing at all is
	// written then.
	Against audit.Catalog
	Pause   state.Pause
	Log     zerolog.Logger
	Run     string
	Tool    string
}

// VerifyReport is the result of an audit, and of the repair that followed: what --output json prints
// and what is kept under _mirror/audits.
type VerifyReport struct {
	Run  string `json:"run"`
	Tool string `json:"tool"`
	audit.Report
	Repair *RepairReport `json:"repair,omitempty"`
}

// Verify audits a bucket and repairs it if told to. The report is there also beside an error, and
// tells what was done until then.
func Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error) {
	report := VerifyReport{Run: o.Run, Tool: o.Tool}
	if err := o.check(); err != nil {
		return report, err
	}
	var book *ledger.Book
	if o.MaxAge > 0 {
		var err error
		if book, err = ledger.Load(ctx, o.Store, o.selected, o.MaxAge, o.Audit.Now); err != nil {
			return report, err
		}
		o.Audit.Ledger = book
	}
	var err error
	report.Report, err = audit.Run(ctx, o.Audit)
	if book != nil {
		for _, key := range book.Damaged {
			report.AddNote(audit.Finding{Kind: audit.KindDocument, Key: key, Detail: "the ledger cannot be read: what it said counts as not checked"})
		}
		err = errors.Join(err, o.saveLedger(ctx, book))
	}
	if err != nil {
		return report, err
	}
	if o.Against != nil {
		if err := o.against(ctx, &report); err != nil {
			return report, err
		}
		return report, nil
	}
	if o.Repair != nil && len(report.Findings) > 0 {
		err = o.repair(ctx, &report)
	}
	if len(report.Findings) > 0 {
		o.keep(ctx, &report)
	}
	return report, err
}

func (o VerifyOptions) selected(dataset string) bool {
	return o.Audit.Select == nil || o.Audit.Select(dataset)
}

// check refuses what cannot be meant together.
func (o VerifyOptions) check() error {
	var problems []error
	refuse := func(text, hint string) {
		problems = append(problems, &fault.Error{Op: "verify", Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New(text), Hint: hint})
	}
	reads := o.Audit.Level != audit.LevelChain && o.Audit.Level != audit.LevelInventory
	if o.MaxAge > 0 && !reads {
		refuse(fmt.Sprintf("--budget and --max-age choose among objects that are checked one by one, which level %s does not do", o.Audit.Level),
			"Use --level bytes or --level checksum with them.")
	}
	if o.Against != nil && (o.Repair != nil || o.MaxAge > 0) {
		refuse("--against-feed writes nothing, --repair, --budget and --max-age do", "Run them one after the other.")
	}
	return errors.Join(problems...)
}

// repairRounds bounds how often what a repair uncovered is repaired too: a record that is there again
// shows what its version lacks.
const repairRounds = 3

// repair restores what was found, and looks again at the versions that were touched.
func (o VerifyOptions) repair(ctx context.Context, report *VerifyReport) error {
	report.Repair = &RepairReport{Restored: []Restored{}, Lost: []Unrestored{}, Unresolved: []Unrestored{}}
	seen := map[string]bool{}
	var feedErr error
	for range repairRounds {
		fresh := slices.DeleteFunc(slices.Clone(report.Findings), func(f audit.Finding) bool { return seen[f.ID] })
		if len(fresh) == 0 {
			break
		}
		for _, f := range fresh {
			seen[f.ID] = true
		}
		repaired, err := repair(ctx, *o.Repair, fresh)
		report.Repair.add(repaired.report)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if again := o.lookAgain(ctx, report, repaired); again != nil || err != nil {
			return errors.Join(err, again)
		}
		feedErr = cmp.Or(feedErr, repaired.feedErr)
	}
	switch {
	case len(report.Repair.Unresolved) == 0:
		return nil
	case feedErr != nil:
		return feedErr
	}
	report.Exit, report.Status = ExitFailed, "failed"
	return nil
}

func (r *RepairReport) add(other RepairReport) {
	r.Restored = append(r.Restored, other.Restored...)
	r.Lost = append(r.Lost, other.Lost...)
	r.Unresolved = append(r.Unresolved, other.Unresolved...)
}

// lookAgain audits the datasets in which something was restored, at the same level, and puts what is
// found now in the place of what was found before.
func (o VerifyOptions) lookAgain(ctx context.Context, report *VerifyReport, repaired *repairer) error {
	datasets, versions := repaired.touched()
	for _, f := range report.Findings {
		versions[versionRef{f.Dataset, manifest.Number(f.Version)}] = true
	}
	report.Findings = slices.DeleteFunc(report.Findings, func(f audit.Finding) bool {
		if isAttachmentKey(f.Key) {
			return repaired.mended(f)
		}
		return datasets[f.Dataset]
	})
	if len(datasets) > 0 {
		again := o.Audit
		again.Ledger, again.Budget, again.Partial = nil, 0, true
		again.Select = func(dataset string) bool { return datasets[dataset] }
		again.Deep = func(dataset string, n manifest.Number) bool { return versions[versionRef{dataset, n}] }
		second, err := audit.Run(ctx, again)
		if err != nil {
			return err
		}
		for _, f := range second.Findings {
			if f.Dataset != "" && !isAttachmentKey(f.Key) {
				report.Findings = append(report.Findings, f)
			}
		}
	}
	report.Settle()
	return nil
}

// touched returns the datasets and versions in which something is not as the audit found it.
func (r *repairer) touched() (datasets map[string]bool, versions map[versionRef]bool) {
	datasets, versions = map[string]bool{}, map[versionRef]bool{}
	changed := maps.Clone(r.well)
	maps.Copy(changed, r.done)
	for name := range changed {
		if key, ok := manifest.ParseDataKey(name); ok && key.Kind != manifest.KeyAttachment {
			datasets[key.Dataset], versions[versionRef{key.Dataset, key.Version}] = true, true
		}
	}
	for ref := range r.rebuild {
		datasets[ref.dataset], versions[ref] = true, true
	}
	return datasets, versions
}

// isAttachmentKey reports whether a finding is about an attachment object. It may carry the dataset of a
// version that names it, but belongs to none.
func isAttachmentKey(key string) bool {
	parsed, ok := manifest.ParseDataKey(key)
	return ok && parsed.Kind == manifest.KeyAttachment
}

// mended reports whether a finding about an attachment holds no longer. Bytes that read well now say
// nothing about a checksum or a size that the store tells wrong.
func (r *repairer) mended(f audit.Finding) bool {
	bytes := f.Kind == audit.KindCorrupt || f.Kind == audit.KindMissing || f.Kind == audit.KindUnreadable
	return r.done[f.Key] || bytes && r.well[f.Key]
}

// against adds what the feed says otherwise than the bucket.
func (o VerifyOptions) against(ctx context.Context, report *VerifyReport) error {
	compared, err := audit.AgainstFeed(ctx, o.Audit, o.Against)
	report.Findings = append(report.Findings, compared.Findings...)
	report.Notes = append(report.Notes, compared.Notes...)
	report.Compared = compared.Compared
	if fault.SideOf(err) == fault.SideBucket {
		return unfitBucket(err)
	}
	if err != nil {
		return unfitFeed(err)
	}
	report.Settle()
	return nil
}

// keep stores a report with findings, so that a person can acknowledge one by its id. An auditor may
// have no right to write: then the findings stand in the output alone.
func (o VerifyOptions) keep(ctx context.Context, report *VerifyReport) {
	body, err := manifest.EncodeDocument(report)
	if err == nil {
		key := manifest.AuditsPrefix + report.Started.UTC().Format("20060102T150405Z") + "-" + o.Run + ".json"
		_, _, err = state.CreateOnce(ctx, o.Store, key, body)
	}
	if err != nil {
		o.Log.Warn().Err(err).Msg("the audit's report could not be kept in the bucket; to acknowledge a finding, keep the output of --output json")
	}
}
