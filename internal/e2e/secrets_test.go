package e2e_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// signed is a signature of the simulated feed's links in any spelling, with its value.
var signed = regexp.MustCompile(`X-Feed-(Signature|Credential)(=|%3[Dd]|\\u003[dD])[0-9a-zA-Z%]{4,}`)

// checkSecrets wants no secret in any output and in any object below root.
func (w *world) checkSecrets(root string) {
	w.t.Helper()
	if len(w.outputs) == 0 {
		w.t.Error("nothing was run")
	}
	for _, output := range w.outputs {
		w.checkText("the output of mirror "+output[:strings.IndexByte(output, '\n')], output)
	}
	w.checkFiles(root)
}

// checkFiles wants no secret in any file below root.
func (w *world) checkFiles(root string) {
	w.t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			w.checkText(path, string(data))
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) checkText(what, text string) {
	w.t.Helper()
	for _, secret := range w.secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if at := strings.Index(text, form); at >= 0 {
				w.t.Errorf("%s holds a secret: ...%s", what, text[max(0, at-200):at+min(8, len(form))])
			}
		}
	}
	if found := signed.FindString(text); found != "" {
		w.t.Errorf("%s holds a signature: %s", what, found)
	}
}
