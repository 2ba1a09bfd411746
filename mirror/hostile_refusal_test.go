package mirror_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/mirror"
)

// refusals are answers of the API that are no answer to the question. What each means is the same
// for every kind of question but for the exit code of a pass.
var refusals = []struct {
	name     string
	fault    feedsim.Fault
	ends     bool // the whole pass, whatever was asked
	settles  bool // it is an answer that is noted, and no failure
	requests int64
}{
	{"400", feedsim.Refuse(400, "bad_request", "no"), false, false, 0},
	{"401", feedsim.Refuse(401, "unauthorized", "bad key"), true, false, 14},
	{"403", feedsim.Refuse(403, "forbidden", "no permission"), true, false, 14},
	{"404", feedsim.Refuse(404, "not_found", "no such thing"), false, false, 0},
	{"409", feedsim.Refuse(409, "not_subscribed", "none of your subscriptions delivers this dataset"), false, true, 0},
	{"409 of another kind", feedsim.Refuse(409, "conflict", "try another day"), false, false, 0},
	{"418", feedsim.Refuse(418, "teapot", "no coffee"), false, false, 0},
	{"429", feedsim.Refuse(429, "rate_limited", "too many requests"), false, false, 0},
	{"500", feedsim.Refuse(500, "internal", "oops"), false, false, 0},
	{"503 for a while", feedsim.Status(503, http.Header{"Retry-After": {"2"}}, "later"), false, false, 0},
	{"503 for a year", feedsim.Status(503, http.Header{"Retry-After": {"31536000"}}, "later"), false, false, 0},
	{"a redirect", feedsim.RedirectTo("http://127.0.0.1:1/elsewhere"), false, false, 0},
	{"204", feedsim.Status(204, nil, ""), false, false, 0},
	{"a cut connection", feedsim.Drop(-1), false, false, 0},
	{"a cut answer", feedsim.Drop(20), false, false, 0},
}

// TestRefusalsOfEveryQuestion answers every kind of question with every kind of refusal, for as
// long as the pass asks.
func TestRefusalsOfEveryQuestion(t *testing.T) {
	var faults []feedFault
	for _, c := range calls() {
		for _, r := range refusals {
			f := feedFault{name: c.name + " answers " + r.name, exit: c.exit, says: "message", requests: r.requests,
				lie: func(w *world, _ *feedsim.Dataset) { c.spoil(w, r.fault) }}
			switch {
			case r.ends || c.exit == 4:
				f.exit = 4
			case r.settles:
				// Only a full pass meets a dataset that is subscribed again.
				f.exit, f.says, f.heal = 0, "not-subscribed", []func(*mirror.Options){full}
			}
			faults = append(faults, f)
		}
	}
	tryFaults(t, faults, 13)
}

// TestRateLimitsOnEveryQuestionAreWaitedFor refuses the first two requests of each kind, with a
// pause named in seconds, by a date and not at all.
func TestRateLimitsOnEveryQuestionAreWaitedFor(t *testing.T) {
	var faults []feedFault
	headers := map[string]func(*world) http.Header{
		"seconds": func(*world) http.Header { return http.Header{"Retry-After": {"30"}} },
		"a date": func(w *world) http.Header {
			return http.Header{"Retry-After": {w.clock.Now().Add(30 * time.Second).Format(http.TimeFormat)}}
		},
		"no word":  func(*world) http.Header { return http.Header{} },
		"rubbish":  func(*world) http.Header { return http.Header{"Retry-After": {"soon"}} },
		"negative": func(*world) http.Header { return http.Header{"Retry-After": {"-5"}} },
	}
	for _, c := range calls() {
		for _, name := range sortedNames(headers) {
			header := headers[name]
			var began time.Time
			faults = append(faults, feedFault{name: fmt.Sprintf("%s is limited, with %s", c.name, name), published: 3,
				lie: func(w *world, _ *feedsim.Dataset) {
					began = w.clock.Now()
					c.rule.Times = 2
					c.spoil(w, feedsim.Status(429, header(w), ""))
				},
				check: func(t *testing.T, w *world, _ mirror.Report) {
					if waited := w.clock.Now().Sub(began); (name == "seconds" || name == "a date") && waited < 30*time.Second {
						t.Errorf("waited %s only", waited)
					}
				}})
		}
	}
	tryFaults(t, faults, 7)
}
