package fault

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden stands where a secret stood.
const hidden = "REDACTED"

// plainName matches query names that are shown. Only these are: a name that looks like anything
// else may be a token without a "=".
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.\-]{1,40}$`)

// linkLike matches what may hold a signed link: an absolute URL, or a query on its own, as in
// the request line of an HTTP error.
var linkLike = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.\-]*://[^\s"'<>\\]+|\?[^\s"'<>\\]+`)

// RedactURL returns raw with every secret a signed link can carry taken out. What is kept is
// listed, not what is removed, since each store spells its signature its own way: scheme, host,
// path and the names in the query stay; user, query values and fragment do not.
func RedactURL(raw string) string {
	rest, query, hasQuery := strings.Cut(raw, "?")
	rest, _, _ = strings.Cut(rest, "#")
	link, err := url.Parse(rest)
	if err != nil {
		return "(unreadable link)"
	}
	link.User = nil
	out := link.String()
	if hasQuery {
		out += "?" + redactQuery(query)
	}
	return out
}

func redactQuery(query string) string {
	query, _, _ = strings.Cut(query, "#")
	if query == "" {
		return ""
	}
	fields := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, field := range fields {
		name, _, hasValue := strings.Cut(field, "=")
		if hasValue && plainName.MatchString(name) {
			fields[i] = name + "=" + hidden
		} else {
			fields[i] = hidden
		}
	}
	return strings.Join(fields, "&")
}

// RedactText returns text with every link in it as RedactURL leaves it. Use it on words that
// were written by others: a server's message, the text of a library's error.
func RedactText(text string) string {
	if !strings.ContainsAny(text, "?@") && !strings.Contains(text, "://") {
		return text
	}
	return linkLike.ReplaceAllStringFunc(text, func(link string) string {
		if query, isQuery := strings.CutPrefix(link, "?"); isQuery {
			if strings.Trim(query, ").,;:!?]}") == "" { // a question mark in prose
				return link
			}
			return "?" + redactQuery(query)
		}
		end := len(strings.TrimRight(link, ").,;:!?]}")) // the sentence's, where nothing secret follows
		if strings.Contains(link, "?") {
			end = len(link)
		}
		return RedactURL(link[:end]) + link[end:]
	})
}

// RedactSecret returns text without secret, in any place. An empty secret changes nothing.
func RedactSecret(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, hidden)
}
