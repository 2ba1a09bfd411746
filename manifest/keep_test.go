package manifest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"feedmirror/manifest"
)

var noon = time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)

// daily returns versions 1 to n, one a day, the last one of them at noon.
func daily(n int) []manifest.Aged {
	var list []manifest.Aged
	for i := range n {
		list = append(list, manifest.Aged{Version: manifest.Number(i + 1), Schema: manifest.SchemaVersion{Major: 1 + i/4},
			CommittedAt: noon.Add(-time.Duration(n-1-i) * 24 * time.Hour)})
	}
	return list
}

func prunedOf(verdicts []manifest.Verdict) []manifest.Number {
	var list []manifest.Number
	for _, v := range verdicts {
		if v.Prune {
			list = append(list, v.Version)
		}
	}
	return list
}

func TestRulesOfPruning(t *testing.T) {
	day := 24 * time.Hour
	cases := map[string]struct {
		published manifest.Number
		change    func([]manifest.Aged)
		rules     manifest.KeepRules
		want      []manifest.Number
	}{
		"the newest three":                  {published: 8, rules: manifest.KeepRules{Versions: 3}, want: []manifest.Number{1, 2, 3, 4, 5}},
		"counted from the published":        {published: 6, rules: manifest.KeepRules{Versions: 3}, want: []manifest.Number{1, 2, 3}},
		"current within three days":         {published: 8, rules: manifest.KeepRules{Days: 3}, want: []manifest.Number{1, 2, 3, 4}},
		"the last of each MAJOR":            {published: 8, rules: manifest.KeepRules{Majors: 2}, want: []manifest.Number{1, 2, 3, 5, 6, 7}},
		"the last of the newest MAJOR":      {published: 8, rules: manifest.KeepRules{Majors: 1}, want: []manifest.Number{1, 2, 3, 4, 5, 6, 7}},
		"rules add up":                      {published: 8, rules: manifest.KeepRules{Versions: 2, Majors: 2}, want: []manifest.Number{1, 2, 3, 5, 6}},
		"grace":                             {published: 8, rules: manifest.KeepRules{Versions: 1, Grace: 30 * time.Hour}, want: []manifest.Number{1, 2, 3, 4, 5}},
		"nothing published":                 {published: 0, rules: manifest.KeepRules{Versions: 1}},
		"left a minute ago, old as it is":   {published: 8, change: func(v []manifest.Aged) { v[1].LeftAt = noon.Add(-time.Minute) }, rules: manifest.KeepRules{Versions: 1, Grace: day}, want: []manifest.Number{1, 3, 4, 5, 6}},
		"filled in an hour ago":             {published: 8, change: func(v []manifest.Aged) { v[0].CommittedAt = noon.Add(-30 * time.Minute) }, rules: manifest.KeepRules{Versions: 1, Grace: 2 * time.Hour}, want: []manifest.Number{2, 3, 4, 5, 6}},
		"the way back from a withdrawn one": {published: 8, change: func(v []manifest.Aged) { v[7].Withdrawn, v[6].Withdrawn = true, true }, rules: manifest.KeepRules{Majors: 1}, want: []manifest.Number{1, 2, 3, 4, 5, 7}},
		"a decision leads to it":            {published: 8, change: func(v []manifest.Aged) { v[2].Decided = true }, rules: manifest.KeepRules{Versions: 1}, want: []manifest.Number{1, 2, 4, 5, 6, 7}},
		"what is pruned takes no place":     {published: 8, change: func(v []manifest.Aged) { v[6].Pruned = true }, rules: manifest.KeepRules{Versions: 2}, want: []manifest.Number{1, 2, 3, 4, 5}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			versions := daily(8)
			if c.change != nil {
				c.change(versions)
			}
			verdicts := manifest.JudgeVersions(c.published, versions, c.rules, noon.Add(time.Hour))
			if got := prunedOf(verdicts); !slices.Equal(got, c.want) {
				t.Errorf("pruned %v, want %v; %+v", got, c.want, verdicts)
			}
		})
	}
}

func TestRulesThatKeepNothingAreRefused(t *testing.T) {
	for _, rules := range []manifest.KeepRules{{}, {Grace: time.Hour}, {Versions: -1, Days: 3}, {Versions: 1, Grace: -1}} {
		if rules.Validate() == nil {
			t.Errorf("%+v is taken", rules)
		}
	}
	if err := (manifest.KeepRules{Majors: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

func drawVersions(t *rapid.T) []manifest.Aged {
	numbers := rapid.SliceOfNDistinct(rapid.Int64Range(1, 60), 1, 20, rapid.ID).Draw(t, "numbers")
	slices.Sort(numbers)
	var list []manifest.Aged
	hours := rapid.IntRange(-24*60, 0)
	for _, n := range numbers {
		v := manifest.Aged{Version: manifest.Number(n), Schema: manifest.SchemaVersion{Major: rapid.IntRange(1, 4).Draw(t, "major")},
			CommittedAt: noon.Add(time.Duration(hours.Draw(t, "committed")) * time.Hour),
			Withdrawn:   rapid.IntRange(0, 4).Draw(t, "withdrawn") == 0, Pruned: rapid.IntRange(0, 4).Draw(t, "pruned") == 0,
			Decided: rapid.IntRange(0, 9).Draw(t, "decided") == 0}
		if rapid.Bool().Draw(t, "known") {
			v.LeftAt = noon.Add(time.Duration(hours.Draw(t, "left")) * time.Hour)
		}
		list = append(list, v)
	}
	return list
}

func drawRules(t *rapid.T) manifest.KeepRules {
	return manifest.KeepRules{Versions: rapid.IntRange(0, 6).Draw(t, "versions"), Days: rapid.IntRange(0, 40).Draw(t, "days"),
		Majors: rapid.IntRange(0, 3).Draw(t, "majors"), Grace: time.Duration(rapid.IntRange(0, 72).Draw(t, "grace")) * time.Hour}
}

// TestPruningKeepsWhatIsNeeded holds whatever the rules.
func TestPruningKeepsWhatIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions, rules := drawVersions(t), drawRules(t)
		at := rapid.IntRange(0, len(versions)-1).Draw(t, "published")
		versions[at].Pruned = false // the published version never is
		published := versions[at].Version
		kept := map[manifest.Number]bool{}
		for _, v := range manifest.JudgeVersions(published, versions, rules, noon) {
			kept[v.Version] = !v.Prune
			if v.Why == "" {
				t.Fatalf("no reason for %+v", v)
			}
		}
		ofUse, back := 0, false
		for _, v := range slices.Backward(versions) {
			keep, judged := kept[v.Version]
			switch {
			case judged == v.Pruned:
				t.Fatalf("version %d is pruned: %v, judged: %v", v.Version, v.Pruned, judged)
			case v.Pruned:
				continue
			case !keep && mustStay(v, published, rules):
				t.Fatalf("version %d goes, published is %d", v.Version, published)
			case v.Version > published || v.Withdrawn:
				continue
			}
			if ofUse++; ofUse <= rules.Versions && !keep {
				t.Fatalf("version %d is number %d and goes", v.Version, ofUse)
			}
			back = back || keep
		}
		if ofUse > 0 && !back {
			t.Fatal("no version is left that readers could be moved to")
		}
	})
}

// mustStay tells what stays whatever is counted.
func mustStay(v manifest.Aged, published manifest.Number, rules manifest.KeepRules) bool {
	since := v.CommittedAt
	if !v.LeftAt.IsZero() {
		since = v.LeftAt
	}
	return v.Version >= published || v.Decided || noon.Sub(since) < rules.Grace
}

// TestPruningIsSettledAfterOneRun: what goes does not make others go, and stricter rules never
// keep what looser ones let go.
func TestPruningIsSettledAfterOneRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions, rules := drawVersions(t), drawRules(t)
		at := rapid.IntRange(0, len(versions)-1).Draw(t, "published")
		versions[at].Pruned = false // the published version never is
		published := versions[at].Version
		first := prunedOf(manifest.JudgeVersions(published, versions, rules, noon))
		looser := rules
		looser.Versions, looser.Days, looser.Majors, looser.Grace = rules.Versions+1, rules.Days+1, rules.Majors+1, rules.Grace+time.Hour
		for _, n := range prunedOf(manifest.JudgeVersions(published, versions, looser, noon)) {
			if !slices.Contains(first, n) {
				t.Fatalf("version %d goes only by the looser rules", n)
			}
		}
		for at := range versions {
			versions[at].Pruned = versions[at].Pruned || slices.Contains(first, versions[at].Version)
		}
		if second := prunedOf(manifest.JudgeVersions(published, versions, rules, noon)); len(second) != 0 {
			t.Fatalf("a second run prunes %v", second)
		}
	})
}

func TestVerdictsSayWhen(t *testing.T) {
	verdicts := manifest.JudgeVersions(2, daily(2), manifest.KeepRules{Versions: 1}, noon.Add(time.Hour))
	if !verdicts[0].Prune || !strings.Contains(verdicts[0].Why, "2026-03-31T12:00:00Z") || verdicts[1].Why != "published" {
		t.Errorf("%+v", verdicts)
	}
}
