package feed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"feedmirror/internal/fault"
	"feedmirror/internal/netclient"
)

// refusal is what the feed said when it refused, cleaned of links, keys and control characters.
type refusal struct {
	status  int
	code    string // "expired", "not_subscribed", ...; may be empty
	message string // for people; may be empty
}

// Error implements error: "410 expired: the message".
func (r *refusal) Error() string {
	text := fmt.Sprintf("status %d", r.status)
	if r.code != "" {
		text += " " + r.code
	}
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}

// ReleasedAgain reports whether err is a 410 whose message says that the version was released
// again under another number, and not merely that it is past retention or being rebuilt. The
// feed has no code of its own for it, only the wording.
func ReleasedAgain(err error) bool {
	var said *refusal
	if !fault.Is(err, fault.Gone) || !errors.As(err, &said) {
		return false
	}
	message := strings.ToLower(said.message)
	for _, phrase := range []string{"released again", "re-released", "rereleased", "rebuilt under a new", "rebuilt under another"} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

// refused turns an answer other than 200 into an error.
func (s *session) refused(ctx context.Context, response *http.Response, body io.Reader, key string) error {
	status := response.StatusCode
	if status >= 300 && status < 400 {
		return s.call.redirected(response)
	}
	said := readRefusal(status, body, key)
	if ctx.Err() != nil {
		return s.call.transport(ctx, ctx.Err())
	}
	out := s.call.fault(kindOf(said), said)
	out.Status = status
	switch out.Kind {
	case fault.Denied:
		out.Hint = "Check that the API key is valid and holds the Data Feeds permission."
	case fault.NotFound:
		out.Hint = "The feed does not know it, although it named it. What is mirrored stays; the next pass asks again."
	case fault.NotSubscribed:
		out.Hint = "Add the dataset to a subscription of this workspace."
	case fault.Malformed:
		out.Hint = spoiledHint
	case fault.Transient:
		out.Hint = againHint
		out.After = netclient.RetryAfter(response.Header, s.client.options.Clock())
	}
	return out
}

// kindOf reads the status first; the code only tells a 409 for an unsubscribed dataset from any
// other, since taking another conflict for "not subscribed" would pass a failure over in silence.
func kindOf(said *refusal) fault.Kind {
	switch status := said.status; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.Denied
	case status == http.StatusNotFound:
		return fault.NotFound
	case status == http.StatusConflict && (said.code == "" || bare(said.code) == "notsubscribed"):
		return fault.NotSubscribed
	case status == http.StatusGone:
		return fault.Gone
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly ||
		status == http.StatusTooManyRequests || status >= 500:
		return fault.Transient
	default:
		return fault.Malformed
	}
}

// bare folds the ways a code can be spelled: not_subscribed, not-subscribed, notSubscribed.
func bare(code string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(code))
}

// redirected names the host a redirect points to and nothing else of it: its query may be signed.
func (c call) redirected(response *http.Response) error {
	host := "an unreadable address"
	if target, err := response.Location(); err == nil && target.Host != "" {
		host = clip(target.Scheme+"://"+target.Host, 200)
	}
	out := c.malformed(fmt.Errorf("the feed redirects to %s, and redirects are not followed: they would carry the API key along", host))
	var place *fault.Error
	if errors.As(out, &place) {
		place.Status = response.StatusCode
		place.Hint = "Set --feed-url to the API's own address."
	}
	return out
}

// transport turns a broken connection into an error without the URL that net/http puts into it.
func (c call) transport(ctx context.Context, err error) error {
	if settled := new(fault.Error); errors.As(err, &settled) {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errIdle) {
		err = cause
	}
	err = netclient.Cause(err)
	if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
		out := c.fault(fault.FeedUnfit, err)
		out.Hint = "If a proxy of yours ends TLS, name its certificate with --ca-file."
		return out
	}
	out := c.fault(fault.Transient, err)
	out.Hint = againHint
	return out
}

// maxRefusal bounds what is read of a refusal's body: a message, not a document.
const maxRefusal = 64 << 10

// readRefusal understands {"error": {"code", "message"}}, {"code", "message"}, {"error": "<code>",
// "message"} and RFC 9457 problem details. Of anything else only the status is known.
func readRefusal(status int, body io.Reader, key string) *refusal {
	out := &refusal{status: status}
	data, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	if err != nil {
		return out // the status came through, and it decides
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return out
	}
	var nested map[string]json.RawMessage
	if json.Unmarshal(fields["error"], &nested) == nil && nested != nil {
		fields = nested
	}
	out.code = clean(firstText(fields, "code", "error"), 60, key)
	if out.code == "" {
		kind := strings.TrimRight(firstText(fields, "type"), "/")
		kind = kind[strings.LastIndexAny(kind, "/#:")+1:]
		if kind != "blank" { // "about:blank" means the status says it all
			out.code = clean(kind, 60, key)
		}
	}
	out.message = clean(firstText(fields, "message", "detail", "title"), 500, key)
	return out
}

func firstText(fields map[string]json.RawMessage, names ...string) string {
	for _, name := range names {
		var text string
		if json.Unmarshal(fields[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// clean makes a server's words fit for a log line.
func clean(text string, limit int, key string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	text = fault.RedactText(fault.RedactSecret(text, key))
	return clip(strings.TrimSpace(text), limit)
}

// clip shortens text to limit bytes, at a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
