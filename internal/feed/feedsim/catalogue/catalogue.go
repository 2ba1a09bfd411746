package catalogue

import (
	"fmt"

	"feedmirror/internal/feed/feedsim"
)

// Place is where a case strikes.
type Place string

// The places: downloads of files, and the calls of the API that a pass makes.
const (
	Files    Place = "files"
	Links    Place = "links call"
	Version  Place = "version call"
	Versions Place = "versions call"
	Datasets Place = "datasets call"
)

// Case is one thing that goes wrong.
type Case struct {
	Name   string // unique
	Place  Place
	Faults []feedsim.Fault // of the first, the second, ... request at the place
	Always bool            // the last fault hits every further request too
	Slow   bool            // the client notices by a limit of time: lower its limits, or wait
	// Exit is how a pass ends that tries a file and a call five times, and Requests how many requests the
	// file or the call gets in it, 0 where that is not fixed.
	Exit     int
	Requests int
	// Clean says that the files are fetched as if nothing had been: nothing needs a second try.
	Clean bool
	Whole bool // a strike at one file strikes all: strikes at several would strike fresh links again
}

// String returns the place and the name.
func (c Case) String() string { return fmt.Sprintf("%s: %s", c.Place, c.Name) }

// Rule returns what the case's faults hit. The file is one to download, for cases of Files; empty for any.
func (c Case) Rule(file string) feedsim.Rule {
	rule := feedsim.Rule{Side: feedsim.SideAPI}
	switch c.Place {
	case Files:
		rule.Side, rule.File = feedsim.SideLinks, file
	case Links:
		rule.Resource = "links"
	case Version:
		rule.Resource, rule.Match = "versions", func(r feedsim.Request) bool { return r.Version > 0 }
	case Versions:
		rule.Resource, rule.Match = "versions", func(r feedsim.Request) bool { return r.Version == 0 }
	case Datasets:
		rule.Resource, rule.Match = "-", func(r feedsim.Request) bool { return r.Dataset == "" }
	}
	return rule
}

// Script makes a feed behave as the case says, from the nth request on that the rule matches. hits tells
// how often a fault has struck.
func (c Case) Script(feed *feedsim.Feed, rule feedsim.Rule, nth int) (hits func() int) {
	var all []func() int
	for i, fault := range c.Faults {
		rule.Nth, rule.Times = nth+i, 1
		if c.Always && i == len(c.Faults)-1 {
			rule.Times = feedsim.Always
		}
		all = append(all, feed.Script(rule, fault))
	}
	return func() int {
		sum := 0
		for _, one := range all {
			sum += one()
		}
		return sum
	}
}

// Cases returns all cases: of files, of the call for links, and of every call of the API.
func Cases() []Case {
	cases := append(fileCases(), redirectCases()...)
	cases = append(cases, linkCases()...)
	for _, place := range calls() {
		cases = append(cases, callCases(place)...)
	}
	return cases
}

// Short returns every kind of case once: what can happen to any call happens to one of them, in turn.
func Short() []Case {
	cases := append(fileCases(), redirectCases()...)
	cases = append(cases, linkCases()...)
	for at, place := range calls() {
		for number, c := range callCases(place) {
			if number%len(calls()) == at {
				cases = append(cases, c)
			}
		}
	}
	return cases
}

func calls() []Place { return []Place{Links, Version, Versions, Datasets} }
