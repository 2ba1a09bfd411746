package state

import (
	"testing"

	"feedmirror/manifest"
)

// TestAPointerIsNeverComputedDownwards asks for targets that the rules of publication never name.
func TestAPointerIsNeverComputedDownwards(t *testing.T) {
	p := Publication{Dataset: "ds", Committed: []Committed{{record: manifest.Record{Dataset: "ds", Version: 3}}}}
	for _, published := range []manifest.Number{3, 4} {
		if next, err := p.next(t.Context(), nil, &Pointer{Version: published}, 3, nil, ActionPublish); err == nil {
			t.Errorf("from %d it moves to %+v", published, next)
		}
	}
	if next, err := p.next(t.Context(), nil, &Pointer{Version: 1}, 2, nil, ActionPublish); err == nil {
		t.Errorf("it moves to %+v, which is not committed", next)
	}
	if next, err := p.next(t.Context(), nil, &Pointer{Version: 1}, 3, nil, ActionPublish); err != nil || next == nil || next.Version != 3 {
		t.Errorf("upwards: %+v, %v", next, err)
	}
}
