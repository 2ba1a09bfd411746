package feedsim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Side is one of the feed's two ports.
type Side string

// The sides.
const (
	SideAPI   Side = "api"
	SideLinks Side = "links"
)

// Request is what a rule of a script can look at.
type Request struct {
	Side     Side
	Method   string
	Path     string // decoded, without the query
	Dataset  string // empty for the list of datasets
	Version  int64  // 0 for none
	Resource string // API: "", "versions", "links", "schema" or "schemas"
	File     string // links host: the path in the manifest, or the attachment's name
	Range    string // the header as sent, empty for none
}

// Event is one request and what became of it. It never holds a query, so that a log of events holds no signature.
type Event struct {
	Request
	Names         int   // names asked for in one call for links
	Status        int   // 0 when the connection was cut before an answer
	Sent          int64 // bytes of the body handed to the connection
	Complete      bool  // links host: the file's last byte was sent, unspoilt by a fault
	Authorization bool  // the request carried the header
	Cookie        bool
	Fault         string // name of the fault that hit, empty for none
	Start, End    time.Time
}

// Violation is a request that breaks the rules of the links host.
type Violation struct {
	Request
	Rule string // "authorization", "cookie", "method" or "target"
}

// journal records requests.
type journal struct {
	mu         sync.Mutex
	events     []*Event
	signed     map[string]int
	violations []Violation
}

func newJournal() journal { return journal{signed: map[string]int{}} }

// begin records a request that has arrived; end fills in what became of it.
func (j *journal) begin(e Event) *Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, &e)
	return &e
}

func (j *journal) end(recorded *Event, e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	*recorded = e
}

func (j *journal) violate(r Request, rule string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, Violation{Request: r, Rule: rule})
}

// FileKey names a file of a version in counters: dataset, version, and path or attachment name.
func FileKey(dataset string, version int64, file string) string {
	return fmt.Sprintf("%s/%d/%s", dataset, version, file)
}

// countSigned notes which names were asked of /links.
func (f *Feed) countSigned(x *exchange, v *version, names []string) {
	x.event.Names = len(names)
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	for _, name := range names {
		f.log.signed[FileKey(v.dataset.spec.ID, v.number, name)]++
	}
}

// Log returns every request so far in the order they arrived. One still under way has no End.
func (f *Feed) Log() []Event {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	events := make([]Event, len(f.log.events))
	for i, e := range f.log.events {
		events[i] = *e
	}
	return events
}

// ViolationsSeen returns the requests that broke the rules of the links host.
func (f *Feed) ViolationsSeen() []Violation {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return slices.Clone(f.log.violations)
}

// SignedNames returns how often each name was asked of /links, by FileKey.
func (f *Feed) SignedNames() map[string]int {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return maps.Clone(f.log.signed)
}

// LinkCalls returns how many calls for fresh links were answered with 200.
func (f *Feed) LinkCalls() int {
	return f.count(func(e Event) bool { return e.Resource == "links" && e.Status == 200 })
}

// VersionReads returns how often a version's files were asked for and answered with 200.
func (f *Feed) VersionReads(dataset string, version int64) int {
	return f.count(func(e Event) bool {
		return e.Side == SideAPI && e.Resource == "versions" && e.Dataset == dataset && e.Version == version && e.Status == 200
	})
}

// APICalls returns how many requests reached the API.
func (f *Feed) APICalls() int { return f.count(func(e Event) bool { return e.Side == SideAPI }) }

// Completed returns how often a file was sent to its end, by FileKey. A file sent in two pieces counts once.
func (f *Feed) Completed() map[string]int {
	completed := map[string]int{}
	for _, e := range f.Log() {
		if e.Side == SideLinks && e.Complete {
			completed[FileKey(e.Dataset, e.Version, e.File)]++
		}
	}
	return completed
}

// CompletedFile returns how often a file was sent to its end.
func (f *Feed) CompletedFile(dataset string, version int64, file string) int {
	return f.count(func(e Event) bool {
		return e.Side == SideLinks && e.Complete && e.Dataset == dataset && e.Version == version && e.File == file
	})
}

// ResetLog forgets events, counters and violations.
func (f *Feed) ResetLog() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.log.events, f.log.violations, f.log.signed = nil, nil, map[string]int{}
}

func (f *Feed) count(match func(Event) bool) int {
	n := 0
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	for _, e := range f.log.events {
		if match(*e) {
			n++
		}
	}
	return n
}
