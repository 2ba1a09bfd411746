package feedsim

import (
	"cmp"
	"strings"
)

// Rule says which requests a fault hits. Empty fields match everything.
type Rule struct {
	Side     Side
	Method   string
	Path     string // substring of the decoded path
	Dataset  string
	Version  int64
	Resource string // see Request; "-" for the empty one
	File     string // exact path or attachment name
	Match    func(Request) bool
	Nth      int // the first request that is hit, counted among those that match; default 1
	Times    int // how many are hit from there on; default 1, negative: all
}

// Always as Rule.Times hits every request that matches.
const Always = -1

// scripted is a rule with its fault and counters.
type scripted struct {
	rule  Rule
	fault Fault
	seen  int
	hits  int
}

// Script adds a fault. Rules are tried in the order in which they were added; the first that hits wins. The counter
// returned tells how often the rule has hit.
func (f *Feed) Script(rule Rule, fault Fault) (hits func() int) {
	rule.Nth, rule.Times = cmp.Or(rule.Nth, 1), cmp.Or(rule.Times, 1)
	s := &scripted{rule: rule, fault: fault}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, s)
	return func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return s.hits
	}
}

// ClearScript removes every rule.
func (f *Feed) ClearScript() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// faultFor counts the request against every rule and returns the fault that hits it.
func (f *Feed) faultFor(r Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fault Fault
	hit := false
	for _, s := range f.rules {
		if !s.rule.matches(r) {
			continue
		}
		s.seen++
		due := s.seen >= s.rule.Nth && (s.rule.Times < 0 || s.seen < s.rule.Nth+s.rule.Times)
		if due && !hit {
			s.hits++
			fault, hit = s.fault, true
		}
	}
	return fault
}

func (rule Rule) matches(r Request) bool {
	resource := r.Resource
	if rule.Resource == "-" && resource == "" {
		resource = "-"
	}
	return allows(rule.Resource, resource) && allows(rule.Side, r.Side) && allows(rule.Method, r.Method) &&
		allows(rule.Dataset, r.Dataset) && allows(rule.Version, r.Version) && allows(rule.File, r.File) &&
		strings.Contains(r.Path, rule.Path) && (rule.Match == nil || rule.Match(r))
}

// allows tells whether a rule's field is empty or has the value.
func allows[T comparable](wanted, value T) bool {
	var empty T
	return wanted == empty || wanted == value
}
