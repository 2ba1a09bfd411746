package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
)

// forged begins a line that nobody but the program may write.
const forged = "FORGED-LINE"

// hostileTexts are what the feed may send where a text is expected.
func hostileTexts() []string {
	return []string{
		"\r\n" + forged + ": all is well\r\n", "\n" + forged, "\x1b[2J\x1b]0;title\x07", "\u009b31mred", "\u202egnp.exe\u2066", "a\x00b",
		`"; rm -rf / #`, `=1+1`, `@SUM(A1)`, `<script>alert(1)</script>`, "a;b,c\td", "bad \xff\xfe utf-8", "\u2028" + forged, "%s%d%n", "\x7f\b\b",
		strings.Repeat("x", 64<<10), strings.Repeat("\x1b[A", 20<<10),
	}
}

// spelled returns text inside a JSON string; bytes that are no UTF-8 stay what they are.
func spelled(text string) string {
	var out bytes.Buffer
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// injected is a world in which the feed sends one text in one place.
type injected struct {
	t       *testing.T
	feed    *feedsim.Feed
	dataset *feedsim.Dataset
	bucket  string
	printed bytes.Buffer // whatever was printed by any command
}

func newInjected(t *testing.T) *injected {
	t.Helper()
	feed, err := feedsim.Start(feedsim.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = feed.Close() })
	w := &injected{t: t, feed: feed, bucket: t.TempDir()}
	for _, id := range []string{"ds_permits", "ds_zoning"} {
		d, err := feed.AddDataset(feedsim.DatasetSpec{ID: id, Character: feedsim.Archive, Rows: 4})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Release(feedsim.ReleaseSpec{}); err != nil {
			t.Fatal(err)
		}
		if w.dataset == nil {
			w.dataset = d
		}
	}
	return w
}

// mirror runs a command in this process, on a terminal or not, and keeps what it printed.
func (w *injected) mirror(terminal bool, args ...string) (exit int, out string) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	env := environment{out: &stdout, err: &stderr, now: time.Now, terminal: terminal, host: "test", program: "mirror",
		environ: []string{"MIRROR_FEED_URL=" + w.feed.URL(), "PLOTI_API_KEY=" + w.feed.Key(), "MIRROR_BUCKET=file://" + w.bucket,
			"MIRROR_TRANSFER_ATTEMPTS=1", "MIRROR_LOG_LEVEL=trace", "NO_COLOR=1"}}
	exit = run(context.Background(), args, env)
	w.wantPlain(strings.Join(args, " ")+", standard output", stdout.String())
	if !terminal { // else the progress bar and the colours of the log steer it, and mean to
		w.wantPlain(strings.Join(args, " ")+", standard error", stderr.String())
	} else {
		w.wantPlain(strings.Join(args, " ")+", standard error", ownSequences.ReplaceAllString(stderr.String(), ""))
	}
	return exit, stdout.String()
}

// ownSequences are those that the progress bar and the log's colours use.
var ownSequences = regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b\\[[0-9]*A\x1b\\[J|\x1b\\[J|\r")

// wantPlain wants text that steers no terminal, is UTF-8, and has no line that others wrote.
func (w *injected) wantPlain(where, text string) {
	w.t.Helper()
	w.printed.WriteString(text)
	if !utf8.ValidString(text) {
		w.t.Errorf("%s: not UTF-8: %q", where, clipped(text))
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), forged) {
			w.t.Errorf("%s: a line that others wrote: %q", where, clipped(line))
		}
		if at := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool {
			return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}); at >= 0 {
			w.t.Errorf("%s: a character that steers, in %q", where, clipped(line[at:]))
		}
		if len(line) > 8<<10 {
			w.t.Errorf("%s: a line of %d bytes: %q", where, len(line), clipped(line))
		}
	}
}

func clipped(text string) string { return text[:min(len(text), 200)] }

// places are where the feed's texts stand.
func places() map[string]func(w *injected, text string) error {
	// replace puts a text into the strings that a pattern ends with.
	replace := func(w *injected, old, text string) func([]byte) []byte {
		pattern := regexp.MustCompile(old)
		return func(body []byte) []byte {
			if !pattern.Match(body) {
				w.t.Errorf("nothing matches %s", old)
			}
			return pattern.ReplaceAllFunc(body, func(match []byte) []byte {
				opening := bytes.LastIndexByte(match[:len(match)-1], '"') + 1
				return []byte(string(match[:opening]) + spelled(text) + `"`)
			})
		}
	}
	inManifest := func(old string) func(w *injected, text string) error {
		return func(w *injected, text string) error { return w.dataset.OverrideManifest(1, replace(w, old, text)) }
	}
	inAnswer := func(old string) func(w *injected, text string) error {
		return func(w *injected, text string) error { return w.dataset.OverrideVersion(1, replace(w, old, text)) }
	}
	refusal := func(code, message string) func(w *injected, text string) error {
		return func(w *injected, text string) error {
			fill := func(pattern string) string { return strings.ReplaceAll(pattern, "*", text) }
			w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Dataset: "ds_permits", Times: feedsim.Always}, feedsim.Refuse(422, fill(code), fill(message)))
			return nil
		}
	}
	return map[string]func(w *injected, text string) error{
		"dataset id in the list": func(w *injected, text string) error {
			w.feed.OverrideList(func(body []byte) []byte {
				return bytes.Replace(body, []byte(`"ds_permits"`), []byte(`"`+spelled(text)+`"`), 1)
			})
			return nil
		},
		"dataset name": func(w *injected, text string) error {
			w.feed.OverrideList(replace(w, `"name": ?"[^"]*"`, text))
			return nil
		},
		"file name of an attachment": inManifest(`"filename": ?"[^"]*"`),
		"name of an attachment":      inManifest(`"file": ?"source:survey"`),
		"content type":               inManifest(`"contentType": ?"[^"]*"`),
		"path of a file":             inManifest(`"path": ?"snapshot/[^"]*"`),
		"source URL":                 inAnswer(`"sourceUrl": ?"[^"]*"`),
		"dataset in the manifest":    inManifest(`"datasetId": ?"[^"]*"`),
		"hash in the manifest":       inManifest(`"sha256": ?"[^"]*"`),
		"schema version":             inManifest(`"schemaVersion": ?"[^"]*"`),
		"file name in the answer":    inAnswer(`"filename": ?"[^"]*"`),
		"URL in the answer":          inAnswer(`"url": ?"[^"]*"`),
		"time in the answer":         inAnswer(`"publishedAt": ?"[^"]*"`),
		"code of a refusal":          refusal("*", "no"),
		"message of a refusal":       refusal("nope", "it is *"),
		"key in the bucket":          strayKey,
	}
}

// strayKey lays an object under a hostile key into the bucket, as another tenant may.
func strayKey(w *injected, text string) error {
	name := strings.ReplaceAll(strings.ReplaceAll(text[:min(len(text), 200)], "/", "_"), "\x00", "_")
	for _, folder := range []string{"", "snapshot", "attachments", "versions", "current", filepath.Join("versions", "ds_zoning")} {
		path := filepath.Join(w.bucket, folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte("stray"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestTextsOfOthersSteerNothing sends every hostile text in every place through a whole pass and the
// commands that tell of it: no terminal is steered, no line is forged, JSON stays JSON, and every document
// in the bucket is what it says.
func TestTextsOfOthersSteerNothing(t *testing.T) {
	tally := evidence.Count(t, "injection-strings")
	texts, number := hostileTexts(), 0
	for place, inject := range places() {
		for at, text := range texts {
			number++
			if !evidence.Long() && (at+len(place))%15 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s-%d", strings.ReplaceAll(place, " ", "_"), at), func(t *testing.T) {
				w := newInjected(t)
				if err := inject(w, text); err != nil {
					t.Fatal(err)
				}
				w.everything(at%2 == 0)
			})
			tally.Add(1)
		}
	}
	tally.Note("%d texts in %d places", len(texts), len(places()))
}

// everything runs the commands that show what others wrote.
func (w *injected) everything(terminal bool) {
	w.t.Helper()
	refused, _ := w.mirror(terminal, "sync")
	for _, args := range [][]string{
		{"plan"}, {"sync", "--full", "--log-format", "json"}, {"status"}, {"verify"}, {"prune", "--keep-versions", "1"},
		{"verify", "--level", "chain", "--against-feed"},
	} {
		w.mirror(terminal, args...)
	}
	for _, args := range [][]string{{"plan"}, {"sync", "--full"}, {"status"}, {"verify"}, {"prune", "--keep-versions", "1"}} {
		_, out := w.mirror(false, append(args, "--output", "json")...)
		if out != "" && !json.Valid([]byte(out)) {
			w.t.Errorf("%v: no JSON: %q", args, clipped(out))
		}
	}
	if refused == 4 { // its list is no UTF-8, and none of it is used
		return
	}
	if _, err := os.Stat(filepath.Join(w.bucket, "versions", "ds_zoning", "0000000001", "record.json")); err != nil {
		w.t.Errorf("the other dataset was not mirrored: %v", err)
	}
	w.wantDocuments()
}

// wantDocuments wants every JSON document of the mirror in the bucket to be JSON.
func (w *injected) wantDocuments() {
	w.t.Helper()
	err := filepath.WalkDir(w.bucket, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".json") || strings.HasSuffix(path, "/manifest.json") || strings.HasSuffix(path, "/schema.json") {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(path, "/_delta_log/") { // one document a line
			data = slices.Concat([]byte("["), bytes.ReplaceAll(bytes.TrimSpace(data), []byte("\n"), []byte(",")), []byte("]"))
		}
		if err == nil && (!json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\x1b\x00\r")) {
			w.t.Errorf("%s is not what it says: %q", path, clipped(string(data)))
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}
