package feed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
)

func TestRefusalsHaveTheirKindInEveryShape(t *testing.T) {
	shapes := map[string]string{
		"nested":  `{"error":{"code":%q,"message":%q}}`,
		"flat":    `{"code":%q,"message":%q}`,
		"error":   `{"error":%q,"message":%q}`,
		"problem": `{"type":"https://ploti.ai/problems/%s","title":"Refused","status":400,"detail":%q}`,
	}
	kinds := []struct {
		status int
		code   string
		kind   fault.Kind
	}{
		{404, "not_found", fault.NotFound},
		{409, "not_subscribed", fault.NotSubscribed},
		{410, "expired", fault.Gone},
		{403, "forbidden", fault.Denied},
	}
	for name, shape := range shapes {
		for _, c := range kinds {
			t.Run(fmt.Sprintf("%s %d", name, c.status), func(t *testing.T) {
				a := serve(t, say(c.status, fmt.Sprintf(shape, c.code, "because of this")))
				_, err := a.client(t).Version(t.Context(), "ds_a", 7, nil)
				wantKind(t, err, c.kind, c.code, "because of this", "ds_a version 7")
				place := new(fault.Error)
				if !errors.As(err, &place) || place.Status != c.status || place.Dataset != "ds_a" || place.Version != 7 {
					t.Errorf("got %+v", place)
				}
			})
		}
	}
}

func TestRefusalWithoutAUsableBodyGoesByItsStatus(t *testing.T) {
	bodies := []string{"", "<html>nope</html>", "[1]", `"text"`, `{"error":7}`, "null", `{"type":"about:blank"}`}
	for _, body := range bodies {
		for status, kind := range map[int]fault.Kind{
			404: fault.NotFound, 409: fault.NotSubscribed, 410: fault.Gone, 403: fault.Denied, 418: fault.Malformed,
		} {
			a := serve(t, say(status, body, "Content-Type", "text/html"))
			_, err := a.client(t).Dataset(t.Context(), "ds_a")
			wantKind(t, err, kind, fmt.Sprint(status))
		}
	}
}

func TestOtherConflictIsNotTakenForNotSubscribed(t *testing.T) {
	a := serve(t, say(409, `{"code":"version_locked"}`))
	_, err := a.client(t).Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Malformed, "version_locked")
}

func TestReleasedAgainIsReadFromTheWording(t *testing.T) {
	cases := []struct {
		status  int
		message string
		want    bool
	}{
		{410, "This version was released again and rebuilt under a new number.", true},
		{410, "Version 41 has been RELEASED AGAIN", true},
		{410, "rebuilt under a new number", true},
		{410, "This version is past retention.", false},
		{410, "Its files are being rebuilt. Try again in a few minutes.", false},
		{410, "", false},
		{404, "released again", false},
	}
	for _, c := range cases {
		a := serve(t, say(c.status, fmt.Sprintf(`{"error":{"code":"expired","message":%q}}`, c.message)))
		_, err := a.client(t).Version(t.Context(), "ds_a", 41, nil)
		if got := feed.ReleasedAgain(fmt.Errorf("wrapped: %w", err)); got != c.want {
			t.Errorf("%d %q: got %v, want %v", c.status, c.message, got, c.want)
		}
	}
	if feed.ReleasedAgain(nil) || feed.ReleasedAgain(errors.New("released again")) {
		t.Error("an error that is no refusal counts as released again")
	}
}

func TestRefusalTextIsCleaned(t *testing.T) {
	text := "line\\nbreak\\u001b[31m https://h/p?sig=S3CRET and " + testKey + strings.Repeat(" more", 1000)
	a := serve(t, say(410, `{"code":"expired","message":"`+text+`"}`))
	_, err := a.client(t).Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Gone, "https://h/p?sig=REDACTED")
	if strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 700 {
		t.Errorf("error of %d bytes is not cleaned: %q", len(err.Error()), err)
	}
}
