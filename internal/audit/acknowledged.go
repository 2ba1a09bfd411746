package audit

import (
	"context"

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
		decision, err := readDocument[state.Decision](ctx, a.Reader, info.Key)
		switch {
		case err != nil: // an acknowledgement that cannot be read leaves its finding open
			if err := a.tell(ctx, KindDocument, info.Key, "", 0, err); err != nil {
				return err
			}
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
