package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// maxAuditReport bounds what is read of a kept report of an audit, in bytes.
const maxAuditReport = 256 << 20

// Acknowledge writes down that a person took note of a finding. It stays visible in every audit, and
// decides no exit code until its facts change, which gives it another id. The finding is taken from
// report, the JSON that verify printed, or else from the audits kept in the bucket, newest first.
func Acknowledge(ctx context.Context, o DecideOptions, id string, report []byte) (state.Decision, error) {
	finding, err := findFinding(ctx, o.Docs, id, report)
	if err != nil {
		return state.Decision{}, err
	}
	dataset := finding.Dataset
	if dataset == "" {
		dataset = manifest.BucketDecisions
	}
	decision := state.Decision{Dataset: dataset, Action: state.ActionAcknowledge, Who: o.Who, Reason: o.Reason, At: o.Now(), Run: o.Run,
		Finding: &state.AuditFinding{ID: finding.ID, Kind: string(finding.Kind), Key: finding.Key, Version: manifest.Number(finding.Version), Detail: finding.Detail}}
	if _, err := state.WriteDecision(ctx, o.Docs, decision); err != nil {
		return state.Decision{}, err
	}
	return decision, nil
}

func findFinding(ctx context.Context, r bucket.Reader, id string, report []byte) (audit.Finding, error) {
	if report != nil {
		finding, found, err := findingIn(report, id)
		if err != nil {
			return audit.Finding{}, &fault.Error{Op: "read report", Side: fault.SideConfig, Kind: fault.Usage, Err: err,
				Hint: "Give the file that mirror verify --output json printed."}
		}
		if found {
			return finding, nil
		}
		return audit.Finding{}, unknownFinding(id, "the report names no such finding")
	}
	var kept []string
	for info, err := range r.List(ctx, manifest.AuditsPrefix, "") {
		if err != nil {
			return audit.Finding{}, err
		}
		if strings.HasSuffix(info.Key, ".json") && !strings.HasPrefix(info.Key, manifest.LedgerPrefix) {
			kept = append(kept, info.Key)
		}
	}
	for _, key := range slices.Backward(kept) {
		raw, _, err := bucket.ReadAll(ctx, r, key, maxAuditReport)
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Malformed) {
			return audit.Finding{}, err
		}
		if finding, found, err := findingIn(raw, id); err == nil && found {
			return finding, nil
		}
	}
	return audit.Finding{}, unknownFinding(id, fmt.Sprintf("none of the %d audits that are kept names it", len(kept)))
}

func findingIn(report []byte, id string) (audit.Finding, bool, error) {
	var decoded VerifyReport
	if err := json.Unmarshal(report, &decoded); err != nil {
		return audit.Finding{}, false, fmt.Errorf("decode report: %w", err)
	}
	for _, f := range decoded.Findings {
		if f.ID == id {
			return f, true, nil
		}
	}
	return audit.Finding{}, false, nil
}

func unknownFinding(id, cause string) error {
	return &fault.Error{Op: "acknowledge", Object: id, Side: fault.SideConfig, Kind: fault.Usage, Err: fmt.Errorf("%s", cause),
		Hint: "mirror verify names each finding with its id. One that the bucket does not keep is found with --report FILE, the output of mirror verify --output json."}
}
