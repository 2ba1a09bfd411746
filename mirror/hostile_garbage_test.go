package mirror_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

func replaced(text string) feedsim.Fault {
	return feedsim.Rewrite(func([]byte) []byte { return []byte(text) })
}

// inFront puts a member before all others of an answer's object.
func inFront(member string) feedsim.Fault {
	return feedsim.Rewrite(func(body []byte) []byte { return slices.Concat([]byte("{"+member+","), body[1:]) })
}

// garbage are answers that no decoder may take for one of the feed's.
func garbage() map[string]feedsim.Fault {
	return map[string]feedsim.Fault{
		"a page of HTML":       feedsim.HTML(),
		"nothing":              replaced(""),
		"null":                 replaced("null"),
		"a list":               replaced("[]"),
		"a number":             replaced("1e999999999"),
		"a string for all":     replaced(`{"datasets":"x","versions":"x","version":"x","files":"x","id":"x","current":"x","datasetId":"x"}`),
		"half of it":           feedsim.Rewrite(func(body []byte) []byte { return body[:len(body)/2] }),
		"gzip":                 feedsim.Gzip(),
		"a byte order mark":    feedsim.Rewrite(func(body []byte) []byte { return append([]byte("\xef\xbb\xbf"), body...) }),
		"a NUL":                feedsim.Rewrite(func(body []byte) []byte { return append([]byte("{\x00"), body[1:]...) }),
		"a NUL at its end":     feedsim.Append("\x00"),
		"another document":     feedsim.Append(`{"datasets":[]}`),
		"a hundred levels":     inFront(`"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)),
		"a million levels":     inFront(`"x":` + strings.Repeat("[", 1_000_000)),
		"a number of 2 MB":     inFront(`"x":` + strings.Repeat("9", 2<<20)),
		"a string of 2 MB":     inFront(`"x":"` + strings.Repeat("a", 2<<20) + `"`),
		"a control in a name":  inFront("\"x\ny\":1"),
		"invalid UTF-8":        feedsim.Rewrite(func(body []byte) []byte { return bytes.ReplaceAll(body, []byte(`"`), []byte("\"\xff")) }),
		"a trailing comma":     feedsim.Rewrite(func(body []byte) []byte { return append(body[:len(body)-1], ",}"...) }),
		"every member twice":   feedsim.Rewrite(func(body []byte) []byte { return slices.Concat(body[:len(body)-1], []byte(","), body[1:]) }),
		"an object of another": replaced(`{"error":{"code":"not_found","message":"There is no such thing."}}`),
	}
}

// TestGarbageForEveryQuestion answers every kind of question with every kind of rubbish.
func TestGarbageForEveryQuestion(t *testing.T) {
	var faults []feedFault
	kinds := garbage()
	for _, c := range calls() {
		for _, kind := range sortedNames(kinds) {
			f := feedFault{name: c.name + " answers " + kind, exit: c.exit, says: "malformed",
				lie: func(w *world, _ *feedsim.Dataset) { c.spoil(w, kinds[kind]) }}
			switch {
			case c.exit == 4:
				f.says = "feed-unfit"
			case c.name == "a dataset by name" && kind == "every member twice":
				f.exit, f.says, f.published = 0, "", 3 // the same said twice: it only names what to ask for
			}
			faults = append(faults, f)
		}
	}
	tryFaults(t, faults, 16)
}

func sortedNames[T any](of map[string]T) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
