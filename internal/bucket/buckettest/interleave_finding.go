package buckettest

import (
	"fmt"
	"regexp"
	"strings"
)

// Finding is a schedule that breaks a promise.
type Finding struct {
	Steps []string
	Err   error
}

// String prints the schedule, a line a step, for a person.
func (f *Finding) String() string {
	var text strings.Builder
	for at, line := range f.Steps {
		fmt.Fprintf(&text, "%4d  %s\n", at+1, line)
	}
	if f.Err != nil {
		fmt.Fprintf(&text, "then: %v", f.Err)
	}
	return text.String()
}

// taken is a step of a schedule as it was taken.
type taken struct {
	choice
	who, answer string
	stands      []byte // what the key held afterwards
}

func newFinding(r *course, err error) *Finding {
	f := &Finding{Err: err}
	for _, t := range r.steps {
		f.Steps = append(f.Steps, t.String())
	}
	return f
}

var facts = regexp.MustCompile(`(?m)^ {0,2}"(?:revision|version|action|state|pinned|withdrawn)": ("[a-z]+"|true|\d+)`)

// String tells the step, with what the document says that then stands.
func (t taken) String() string {
	switch t.kind {
	case wait:
		return t.answer + " pass"
	case crash:
		return fmt.Sprintf("%-9s dies before %s %s", t.who, t.op, t.key)
	}
	text := fmt.Sprintf("%-9s %-6s %s: %s", t.who, t.op, t.key, t.answer)
	if found := facts.FindAllString(string(t.stands), 4); len(found) > 0 {
		text += "; it holds" + strings.ReplaceAll(strings.ReplaceAll(strings.Join(found, ","), `"`, ""), "  ", " ")
	}
	return text
}
