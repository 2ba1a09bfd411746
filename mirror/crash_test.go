package mirror_test

import (
	"strings"
	"testing"
)

// finishedData returns the keys and hashes that an undisturbed pass ends with, without what names
// the run or the time.
func finishedData(t *testing.T, w *world) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for key, object := range w.take().Objects {
		switch {
		case strings.HasPrefix(key, "_mirror/"), strings.HasPrefix(key, "current/"):
		case strings.Contains(key, "_delta_log/"), strings.HasPrefix(key, "publications/"): // as many commits as there were interruptions
		case strings.HasSuffix(key, "/record.json"), strings.HasSuffix(key, "/stored.json"):
			kept[key] = "there"
		default:
			kept[key] = object.SHA256
		}
	}
	return kept
}
