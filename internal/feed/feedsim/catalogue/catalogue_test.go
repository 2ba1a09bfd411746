package catalogue

import "testing"

func TestCasesAreNamedOnceAndSayWhatTheyWant(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		switch {
		case seen[c.String()]:
			t.Errorf("%s stands twice", c)
		case len(c.Faults) == 0:
			t.Errorf("%s has no fault", c)
		case c.Exit != 0 && !c.Always:
			t.Errorf("%s ends a pass and strikes once: name how often it is tried", c)
		case c.Always && c.Exit == 0 && !c.Clean:
			t.Errorf("%s strikes for ever and ends nothing", c)
		}
		seen[c.String()] = true
	}
	if len(seen) < 150 {
		t.Errorf("%d cases", len(seen))
	}
	names := map[string]bool{}
	for _, c := range Short() {
		names[c.Name] = true
		if !seen[c.String()] {
			t.Errorf("%s is short and no case", c)
		}
	}
	for _, c := range Cases() {
		if !names[c.Name] {
			t.Errorf("%s is in no short form", c)
		}
	}
}
