package telemetry

import (
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"sync"

	"feedmirror/internal/fault"
)

// Guard is a writer that no secret passes: the last line of defence behind errors that are
// built without secrets in the first place. Queries of links lose their values, secrets told to
// Hide are replaced. Each Write must hold whole lines, as loggers write them. It is safe for
// concurrent use.
type Guard struct {
	out io.Writer

	mutex sync.Mutex
	forms []string // of all secrets
}

// NewGuard returns a Guard before out.
func NewGuard(out io.Writer) *Guard { return &Guard{out: out} }

// Hide replaces secret from now on, as it stands and as JSON or a URL spells it. An empty one is
// ignored.
func (g *Guard) Hide(secret string) {
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return
	}
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	if quoted, err := json.Marshal(secret); err == nil { // a string always has a JSON form
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, form := range forms {
		known := false
		for _, one := range g.forms {
			known = known || one == form
		}
		if !known {
			g.forms = append(g.forms, form)
		}
	}
}

// HideKey returns read such that every key it returns is hidden before anybody uses it.
func (g *Guard) HideKey(read func() (string, error)) func() (string, error) {
	return func() (string, error) {
		key, err := read()
		g.Hide(key)
		return key, err
	}
}

// Clean returns text without secrets.
func (g *Guard) Clean(text string) string {
	g.mutex.Lock()
	forms := g.forms
	g.mutex.Unlock()
	for _, form := range forms {
		text = fault.RedactSecret(text, form)
	}
	return fault.RedactText(text)
}

// Write implements io.Writer. It returns len(p) when everything was written, whatever the
// cleaned text's length.
func (g *Guard) Write(p []byte) (int, error) {
	text := g.Clean(string(p))
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if _, err := io.WriteString(g.out, text); err != nil {
		return 0, err
	}
	return len(p), nil
}
