package fault_test

import (
	"strings"
	"testing"

	"feedmirror/internal/fault"
)

func TestRedactURLKeepsWhatIsListedOnly(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"plain", "https://host/a/b", "https://host/a/b"},
		{"port", "http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a"},
		{"values", "https://h/p?X-Amz-Signature=abc&Expires=12", "https://h/p?X-Amz-Signature=REDACTED&Expires=REDACTED"},
		{"unknown parameter", "https://h/p?zz=abc", "https://h/p?zz=REDACTED"},
		{"token without a name", "https://h/p?c2VjcmV0", "https://h/p?REDACTED"},
		{"name that is no name", "https://h/p?a%2Fb=1", "https://h/p?REDACTED"},
		{"semicolons", "https://h/p?sig=1;sv=2", "https://h/p?sig=REDACTED&sv=REDACTED"},
		{"second question mark", "https://h/p?a=1?b=2", "https://h/p?a=REDACTED"},
		{"user", "https://me:secret@h/p", "https://h/p"},
		{"fragment", "https://h/p#secret", "https://h/p"},
		{"fragment after query", "https://h/p?a=1#secret", "https://h/p?a=REDACTED"},
		{"unreadable", "https://h/%zz?sig=secret", "(unreadable link)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := fault.RedactURL(c.in); got != c.want {
				t.Errorf("RedactURL(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestRedactTextFindsLinksInProse(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"nothing", "dial tcp: connection refused", "dial tcp: connection refused"},
		{"question", "is it there? no", "is it there? no"},
		{"library error", `Get "https://h/p?sig=s3cret": EOF`, `Get "https://h/p?sig=REDACTED": EOF`},
		{"request line", "GET /p?sig=s3cret HTTP/1.1", "GET /p?sig=REDACTED HTTP/1.1"},
		{"two", "https://a/?s=1 and s3://b/?t=2", "https://a/?s=REDACTED and s3://b/?t=REDACTED"},
		{"user", "proxy http://u:p@h:1/ failed", "proxy http://h:1/ failed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := fault.RedactText(c.in); got != c.want {
				t.Errorf("RedactText(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestRedactSecret(t *testing.T) {
	if got := fault.RedactSecret("a key b", "key"); got != "a REDACTED b" {
		t.Errorf("got %q", got)
	}
	if got := fault.RedactSecret("text", ""); got != "text" {
		t.Errorf("an empty secret changed the text to %q", got)
	}
}

func FuzzRedactURL(f *testing.F) {
	f.Add("https://h/p?sig=")
	f.Add("https://h/p?")
	f.Fuzz(func(t *testing.T, prefix string) {
		if !strings.Contains(prefix, "?") {
			return
		}
		for _, tail := range []string{"=S3NTINEL", "&x=S3NTINEL", "#S3NTINEL"} {
			if got := fault.RedactURL(prefix + tail); strings.Contains(got, "S3NTINEL") {
				t.Errorf("RedactURL(%q) = %q keeps the value", prefix+tail, got)
			}
		}
	})
}
