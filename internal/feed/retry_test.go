package feed_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
)

func TestBusyAnswersAreTriedAgain(t *testing.T) {
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		a := serve(t, say(status, ""), say(200, item("ds_a", 3)))
		if _, err := a.client(t).Dataset(t.Context(), "ds_a"); err != nil {
			t.Errorf("status %d: %v", status, err)
		}
		if n := a.counts.Feed.Load(); n != 2 {
			t.Errorf("status %d: counted %d requests, want 2", status, n)
		}
	}
}

func TestRefusalsAreNotTriedAgain(t *testing.T) {
	for _, status := range []int{400, 404, 405, 409, 410, 422} {
		a := serve(t, say(status, ""))
		if _, err := a.client(t).Dataset(t.Context(), "ds_a"); err == nil {
			t.Errorf("status %d: no error", status)
		}
		if n := len(a.seen()); n != 1 {
			t.Errorf("status %d: sent %d requests, want 1", status, n)
		}
	}
}

func TestTriesAreBoundedAndSpread(t *testing.T) {
	a := serve(t, say(503, `{"code":"overloaded","message":"come back later"}`))
	_, err := a.client(t, func(o *feed.Options) { o.Attempts = 4 }).Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Transient, "503", "come back later", "4 tries")
	if n := len(a.seen()); n != 4 {
		t.Errorf("sent %d requests, want 4", n)
	}
	pauses := a.slept()
	if len(pauses) != 3 {
		t.Fatalf("slept %v, want three pauses", pauses)
	}
	for i, pause := range pauses {
		middle := 500 * time.Millisecond << i
		if pause < middle/2 || pause > middle*3/2+1 {
			t.Errorf("pause %d is %s, want %s more or less a half", i, pause, middle)
		}
	}
}

func TestRetryAfterIsAFloor(t *testing.T) {
	now := time.Date(2026, 10, 18, 6, 0, 0, 0, time.UTC)
	cases := []struct {
		name    string
		headers []string
		floor   time.Duration
	}{
		{"seconds", []string{"Retry-After", "7"}, 7 * time.Second},
		{"date", []string{"Retry-After", now.Add(7 * time.Second).Format(http.TimeFormat), "Date", now.Format(http.TimeFormat)}, 7 * time.Second},
		{"date by the server's clock", []string{"Retry-After", now.Add(time.Hour + 7*time.Second).Format(http.TimeFormat),
			"Date", now.Add(time.Hour).Format(http.TimeFormat)}, 7 * time.Second},
		{"past date", []string{"Retry-After", now.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		{"negative", []string{"Retry-After", "-1"}, 0},
		{"word", []string{"Retry-After", "soon"}, 0},
		{"fraction", []string{"Retry-After", "600.5"}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := serve(t, say(429, "", c.headers...), say(200, item("ds_a", 3)))
			client := a.client(t, func(o *feed.Options) { o.Clock = func() time.Time { return now } })
			if _, err := client.Dataset(t.Context(), "ds_a"); err != nil {
				t.Fatal(err)
			}
			pauses := a.slept()
			if len(pauses) != 1 || pauses[0] < c.floor || pauses[0] > c.floor+time.Second {
				t.Errorf("slept %v, want one pause of %s or little more", pauses, c.floor)
			}
		})
	}
}

func TestWaitThatIsTooLongFailsAtOnceAndIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ after, want string }{
		"beyond the client's patience": {"86400", "24h0m0s"},
		"beyond any number":            {"99999999999999999999999", "longer than"},
		"beyond the run's deadline":    {"600", "10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			a := serve(t, say(429, "", "Retry-After", c.after))
			_, err := a.client(t).Dataset(ctx, "ds_a")
			wantKind(t, err, fault.Transient, c.want)
			if len(a.seen()) != 1 || len(a.slept()) != 0 {
				t.Errorf("sent %d requests and slept %v", len(a.seen()), a.slept())
			}
			if fault.RetryAfter(err) == 0 {
				t.Error("the error does not carry the wait")
			}
		})
	}
}
