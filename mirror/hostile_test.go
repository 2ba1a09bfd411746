package mirror_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
)

// TestEveryAssumedReadingOfTheContract runs a chain with everything in it once under each way in
// which the feed may mean what its documents leave open.
func TestEveryAssumedReadingOfTheContract(t *testing.T) {
	for _, alternative := range feedsim.Alternatives() {
		t.Run(alternative.Name, func(t *testing.T) {
			var options feedsim.Options
			alternative.Apply(&options.Assume)
			w := newWorld(t, options)
			d := w.dataset(permits, feedsim.Points)
			w.release(d, feedsim.ReleaseSpec{})
			w.release(d, feedsim.ReleaseSpec{Add: 2, Parts: 2})
			w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
			w.sync(0)
			newest := w.release(d, feedsim.ReleaseSpec{Minor: true, Add: 1, Extra: []feedsim.ExtraFile{{Path: "notes/readme.txt", Data: []byte("hello")}}})
			report := w.sync(0)
			if report.Versions.Committed != 1 {
				t.Errorf("committed %d, want 1", report.Versions.Committed)
			}
			w.published(permits, newest)
			if !w.has(manifest.VersionPrefix(permits, newest) + "files/notes/readme.txt") {
				t.Error("the file of an unknown kind was dropped")
			}
			w.sync(0)
			w.sync(0, full)
		})
	}
}

// edit changes a decoded manifest.
func edit(change func(m map[string]any)) func([]byte) []byte {
	return func(data []byte) []byte {
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			return data
		}
		change(m)
		out, err := json.Marshal(m)
		if err != nil {
			return data
		}
		return out
	}
}

func firstFile(m map[string]any) map[string]any {
	return m["files"].([]any)[0].(map[string]any)
}

func setFirst(field string, value any) func([]byte) []byte {
	return edit(func(m map[string]any) { firstFile(m)[field] = value })
}

func TestAManifestThatCannotBeUsedFailsItsDatasetOnly(t *testing.T) {
	tests := map[string]func([]byte) []byte{
		"HTML":                          func([]byte) []byte { return []byte("<html>login</html>") },
		"truncated JSON":                func(data []byte) []byte { return data[:len(data)/2] },
		"a hash that is not 64 hex":     setFirst("sha256", "abc"),
		"a hash that is a path":         setFirst("sha256", "../../../etc/passwd"),
		"a negative size":               setFirst("sizeBytes", -1),
		"an absurd size":                setFirst("sizeBytes", 1e18),
		"a fraction of a byte":          setFirst("sizeBytes", 10.5),
		"a path that climbs":            setFirst("path", "snapshot/../../x.parquet"),
		"an absolute path":              setFirst("path", "/etc/passwd"),
		"a backslash":                   setFirst("path", `snapshot\part.parquet`),
		"a control character":           setFirst("path", "snapshot/a\x07b.parquet"),
		"a hidden name":                 setFirst("path", "snapshot/_part.parquet"),
		"a name of 300 bytes":           setFirst("path", "snapshot/"+strings.Repeat("a", 300)),
		"another hash than its version": setFirst("sha256", strings.Repeat("ab", 32)),
		"the same path twice": edit(func(m map[string]any) {
			m["files"] = append(m["files"].([]any), firstFile(m))
		}),
		"names that differ only in case": edit(func(m map[string]any) {
			twin := map[string]any{}
			for field, value := range firstFile(m) {
				twin[field] = value
			}
			twin["path"] = strings.ToUpper(twin["path"].(string)[:10]) + twin["path"].(string)[10:]
			m["files"] = append(m["files"].([]any), twin)
		}),
		"another dataset": edit(func(m map[string]any) { m["datasetId"] = "ds_other" }),
		"another version": edit(func(m map[string]any) { m["version"] = 77 }),
		"an attachment's other hash": edit(func(m map[string]any) {
			m["attachments"].([]any)[0].(map[string]any)["sha256"] = strings.Repeat("ab", 32)
		}),
		"an attachment left out": edit(func(m map[string]any) { m["attachments"] = m["attachments"].([]any)[1:] }),
		"an attachment twice": edit(func(m map[string]any) {
			list := m["attachments"].([]any)
			m["attachments"] = append(list, list[0])
		}),
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			good := w.dataset("ds_zoning", feedsim.Plain)
			w.release(good, feedsim.ReleaseSpec{})
			bad := w.release(d, feedsim.ReleaseSpec{Add: 1})
			var original []byte
			err := d.OverrideManifest(int64(bad), func(data []byte) []byte {
				original = bytes.Clone(data)
				return change(data)
			})
			if err != nil {
				t.Fatal(err)
			}
			report := w.sync(1)
			if len(report.Failures) == 0 || report.Failures[0].Dataset != permits || report.Failures[0].Side != "feed" || report.Failures[0].Hint == "" {
				t.Errorf("failures %+v", report.Failures)
			}
			w.published(permits, 2)
			w.published("ds_zoning", 1)
			if w.has(manifest.VersionPrefix(permits, bad)) {
				t.Error("something of the bad version was stored")
			}
			if err := d.OverrideManifest(int64(bad), func([]byte) []byte { return original }); err != nil {
				t.Fatal(err)
			}
			w.sync(0)
			w.published(permits, bad)
		})
	}
}

func TestGarbageFromTheFeedFailsWhatItIsAbout(t *testing.T) {
	t.Run("the list is HTML", func(t *testing.T) {
		w, _ := permitsWorld(t)
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.HTML())
		report := w.sync(4)
		if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Message, "html") {
			t.Errorf("failures %+v, want one that names the content type", report.Failures)
		}
	})
	t.Run("an id that no key may hold", func(t *testing.T) {
		w, _ := permitsWorld(t)
		w.feed.OverrideList(func(data []byte) []byte {
			return bytes.Replace(data, []byte(`"datasets":[`), []byte(`"datasets":[{"id":"../../etc","datasetId":"../../etc","current":{"version":1}},`), 1)
		})
		w.sync(1)
		w.published(permits, 2)
	})
	t.Run("a version is truncated JSON", func(t *testing.T) {
		w, d := permitsWorld(t)
		if err := d.OverrideVersion(2, func(data []byte) []byte { return data[:len(data)/2] }); err != nil {
			t.Fatal(err)
		}
		report := w.sync(1)
		if w.pointer(permits) != nil {
			t.Error("something was published before the newest version was there")
		}
		t.Log(report.Failures)
	})
	t.Run("a bad key", func(t *testing.T) {
		w, _ := permitsWorld(t)
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "bad key"))
		report := w.sync(4)
		if report.Requests.Feed > 2 {
			t.Errorf("asked %d times with a bad key", report.Requests.Feed)
		}
		if w.snapshot() != "" {
			t.Error("something was written")
		}
	})
	t.Run("the key stops working in mid-run", func(t *testing.T) {
		w, _ := permitsWorld(t)
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: 4, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "bad key"))
		w.sync(4)
	})
}

func TestWrongBytesAreNeverStored(t *testing.T) {
	faults := map[string]feedsim.Fault{
		"one byte flipped":  feedsim.FlipByte(100),
		"one byte too many": feedsim.Append("x"),
		"cut short":         feedsim.Drop(500),
		"HTML instead":      feedsim.HTML(),
		"gzip on the fly":   feedsim.Gzip(),
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			bad := w.release(d, feedsim.ReleaseSpec{Add: 1})
			w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: int64(bad), File: "snapshot/part-0000.parquet", Times: feedsim.Always}, fault)
			report := w.sync(1)
			if len(report.Failures) != 1 || report.Failures[0].Side != "source" || !strings.Contains(report.Failures[0].Object, "snapshot/part-0000.parquet") {
				t.Errorf("failures %+v", report.Failures)
			}
			key := manifest.FileKey(permits, bad, manifest.File{Kind: manifest.KindSnapshot, Path: "snapshot/part-0000.parquet"})
			if _, err := w.store.Stat(context.Background(), key); err == nil {
				t.Error("the key holds something")
			}
			w.published(permits, 2)
			w.feed.ClearScript()
			w.feed.ResetLog()
			w.sync(0)
			w.published(permits, bad)
			if again := w.feed.CompletedFile(permits, int64(bad), "changes/part-0000.parquet"); again != 0 {
				t.Errorf("a finished file was fetched again %d times", again)
			}
		})
	}
}
