package audit

import (
	"context"

	"feedmirror/internal/fault"
	"feedmirror/state"
)

// acknowledged marks the findings that a person took note of. Decisions are read only where there
// is something to mark.
func (a *auditor) acknowledged(ctx context.Context) error {
	if len(a.report.Findings) == 0 {
		return nil
	}
	known := map[string]Acknowledgement{}
	for info, err := range a.Reader.List(ctx, "_mirror/decisions/", "") {
		if err != nil {
			return err
		}
		decision, _, err := state.Read[state.Decision](ctx, a.Reader, info.Key)
		switch {
		case fault.Is(err, fault.Malformed):
			a.find(Finding{Kind: KindDocument, Key: info.Key, Detail: err.Error(), Hint: fault.HintOf(err)})
		case err != nil:
			return err
		case decision != nil && decision.Action == state.ActionAcknowledge && decision.Finding != nil:
			known[decision.Finding.ID] = Acknowledgement{Who: decision.Who, Reason: decision.Reason, At: decision.At}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at := range a.report.Findings {
		if word, ok := known[a.report.Findings[at].ID]; ok {
			a.report.Findings[at].Acknowledged = &word
		}
	}
	return nil
}
