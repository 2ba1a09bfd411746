package mirror_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

type object = map[string]any

// lie changes the answer to one kind of question: "versions", "version" (number 3) or "links".
func lie(about string, change func(answer object)) func(*world, *feedsim.Dataset) {
	rules := map[string]feedsim.Rule{}
	for _, c := range calls() {
		rules[c.rule.Resource+map[bool]string{true: "", false: "-of-3"}[c.rule.Version == 0]] = c.rule
	}
	rule := rules[map[string]string{"versions": "versions", "version": "versions-of-3", "links": "links-of-3"}[about]]
	return func(w *world, _ *feedsim.Dataset) { w.feed.Script(rule, feedsim.Rewrite(edit(change))) }
}

// first changes the first entry of a list that a path of members leads to.
func first(change func(entry object), path ...string) func(object) {
	return func(answer object) {
		for _, member := range path[:len(path)-1] {
			answer = answer[member].(object)
		}
		list := answer[path[len(path)-1]].([]any)
		change(list[0].(object))
	}
}

func put(member string, value any) func(object) {
	return func(o object) { o[member] = value }
}

// nothingOf wants no trace of version 3.
func nothingOf(t *testing.T, w *world, _ mirror.Report) {
	if w.has(manifest.VersionPrefix(permits, 3)) {
		t.Error("something of the version was stored")
	}
}

// releasing releases more versions before the feed lies.
func releasing(more int, lies ...func(*world, *feedsim.Dataset)) func(*world, *feedsim.Dataset) {
	return func(w *world, d *feedsim.Dataset) {
		for range more {
			w.release(d, feedsim.ReleaseSpec{Add: 1})
		}
		for _, tell := range lies {
			tell(w, d)
		}
	}
}

func refuseVersions(status int, code string, which func(int64) bool) func(*world, *feedsim.Dataset) {
	return func(w *world, _ *feedsim.Dataset) {
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(r feedsim.Request) bool {
			return r.Dataset == permits && r.Version != 0 && which(r.Version)
		}}, feedsim.Refuse(status, code, "no more"))
	}
}

func onlyVersion(n int64) func(int64) bool { return func(v int64) bool { return v == n } }

// lacking leaves a version out of the list of versions.
func lacking(n float64) func(*world, *feedsim.Dataset) {
	return lie("versions", func(answer object) {
		answer["versions"] = slices.DeleteFunc(answer["versions"].([]any), func(v any) bool { return v.(object)["version"] == n })
	})
}

// TestLiesAboutTheChain gives lists of versions that contradict themselves, lack or invent versions.
func TestLiesAboutTheChain(t *testing.T) {
	item := func(member string, value any) func(*world, *feedsim.Dataset) {
		return lie("versions", first(put(member, value), "versions"))
	}
	var faults []feedFault
	contradictions := map[string]func(*world, *feedsim.Dataset){
		"its own predecessor":          item("previousVersion", 3),
		"a predecessor above all":      item("previousVersion", 99),
		"a predecessor below zero":     item("previousVersion", -2),
		"another predecessor":          item("previousVersion", 1),
		"a version of zero":            item("version", 0),
		"a version below zero":         item("version", -3),
		"a version and a half":         item("version", 3.5),
		"a version of eleven digits":   item("version", 12345678901),
		"a version in words":           item("version", "three"),
		"a version of another dataset": item("datasetId", "ds_other"),
		"no version number":            item("version", nil),
		"a schema version in words":    item("schemaVersion", "new"),
		"the same version twice": lie("versions", func(answer object) {
			answer["versions"] = append(answer["versions"].([]any), answer["versions"].([]any)[0])
		}),
		"pages in a circle": lie("versions", put("nextCursor", "again")),
	}
	for _, name := range sortedNames(contradictions) {
		faults = append(faults, feedFault{name: name, lie: contradictions[name], exit: 1, says: "malformed", check: nothingOf})
	}
	faults = append(faults,
		feedFault{name: "a circle of two", lie: releasing(1, item("previousVersion", 4)), exit: 1, says: "malformed", newest: 4, check: nothingOf},
		feedFault{name: "a circle of three", lie: releasing(2, item("previousVersion", 5)), exit: 1, says: "malformed", newest: 5, check: nothingOf},
		feedFault{name: "versions in reverse", lie: releasing(2, lie("versions", func(answer object) { slices.Reverse(answer["versions"].([]any)) })),
			exit: 1, says: "malformed", newest: 5, check: nothingOf},
		feedFault{name: "the newest is missing", lie: lacking(3), says: "not-listed", owes: true},
		feedFault{name: "one in the middle is missing", lie: releasing(1, lacking(3)), published: 4, newest: 4},
		feedFault{name: "one in the middle is missing and unknown", lie: releasing(1, lacking(3), refuseVersions(404, "not_found", onlyVersion(3))),
			exit: 1, says: "unknown-version", published: 4, newest: 4},
		feedFault{name: "one in the middle is gone", lie: releasing(1, refuseVersions(410, "expired", onlyVersion(3))), says: "gone", published: 4, newest: 4},
		feedFault{name: "one in the middle is missing and gone", lie: releasing(1, lacking(3), refuseVersions(410, "expired", onlyVersion(3))),
			says: "gone", published: 4, newest: 4},
		feedFault{name: "the newest is gone", lie: refuseVersions(410, "expired", onlyVersion(3)), exit: 6, says: "rebuilding"},
		feedFault{name: "all of five are gone", lie: releasing(4, refuseVersions(410, "expired", func(n int64) bool { return n > 2 })),
			exit: 1, says: "mass-410", newest: 7, check: nothingOf},
		feedFault{name: "everything is gone, in a full pass", options: []func(*mirror.Options){full},
			lie: releasing(4, refuseVersions(410, "expired", func(int64) bool { return true })), exit: 1, says: "mass-410", newest: 7, check: nothingOf},
		feedFault{name: "current steps back", says: "feed-behind", published: 3, lie: func(w *world, _ *feedsim.Dataset) {
			w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isDatasetList, Times: feedsim.Always}, feedsim.Rewrite(inItems("datasets", func(item map[string]any) {
				if item["id"] == permits {
					item["current"].(object)["version"] = 1
				}
			})))
		}},
	)
	tryFaults(t, faults, 6)
}

// TestLiesInAVersion gives answers about a version that contradict its manifest or themselves.
func TestLiesInAVersion(t *testing.T) {
	snapshot := func(change func(object)) func(*world, *feedsim.Dataset) {
		return lie("version", first(change, "files", "snapshot"))
	}
	attached := func(change func(object)) func(*world, *feedsim.Dataset) {
		return lie("version", first(change, "files", "attachments"))
	}
	manifests := func(member string, value any) func(*world, *feedsim.Dataset) {
		return lie("version", func(answer object) { answer["files"].(object)["manifest"].(object)[member] = value })
	}
	otherHash := strings.Repeat("ab", 32)
	lies := map[string]func(*world, *feedsim.Dataset){
		"another dataset":     lie("version", put("datasetId", "ds_other")),
		"another version":     lie("version", put("version", 2)),
		"another predecessor": lie("version", put("previousVersion", 1)),
		"no files":            lie("version", func(answer object) { delete(answer, "files") }),
		"no manifest":         lie("version", func(answer object) { delete(answer["files"].(object), "manifest") }),
		"two manifests": lie("version", func(answer object) {
			f := answer["files"].(object)
			f["manifest"] = []any{f["manifest"], f["manifest"]}
		}),
		"a manifest without a link":     manifests("url", nil),
		"a part without a hash":         snapshot(put("sha256", nil)),
		"a part without a size":         snapshot(put("sizeBytes", nil)),
		"a part of less than no bytes":  snapshot(put("sizeBytes", -1)),
		"a part of another size":        snapshot(put("sizeBytes", 7)),
		"a part of another hash":        snapshot(put("sha256", otherHash)),
		"a part that climbs":            snapshot(put("file", "snapshot/../../x.parquet")),
		"a part the manifest lacks":     snapshot(put("file", "snapshot/part-0099.parquet")),
		"an attachment of another hash": attached(put("sha256", otherHash)),
		"an attachment of another size": attached(put("sizeBytes", 1)),
		"an attachment it invents":      attached(put("file", "source:invented")),
		"an attachment without a name":  attached(put("file", "")),
		"an entry of 70 KiB":            attached(put("filename", strings.Repeat("n", 70<<10))),
		"an attachment twice": lie("version", func(answer object) {
			files := answer["files"].(object)
			files["attachments"] = append(files["attachments"].([]any), files["attachments"].([]any)[0])
		}),
		"a schema version in words": lie("version", put("schemaVersion", "new")),
		"rows below zero":           lie("version", put("rowCount", -1)),
	}
	var faults []feedFault
	for _, name := range sortedNames(lies) {
		faults = append(faults, feedFault{name: name, lie: lies[name], exit: 1, says: "malformed", check: nothingOf})
	}
	faults = append(faults,
		feedFault{name: "a manifest of another size", lie: manifests("sizeBytes", 7), exit: 1, says: "wrong-bytes", check: nothingOf},
		feedFault{name: "a manifest of another hash", lie: manifests("sha256", otherHash), exit: 1, says: "wrong-bytes", check: nothingOf},
		feedFault{name: "fewer attachments than the manifest", published: 3, lie: lie("version", func(answer object) {
			files := answer["files"].(object)
			files["attachments"] = files["attachments"].([]any)[1:]
		})},
		feedFault{name: "no attachments at all", published: 3, lie: lie("version", func(answer object) { answer["files"].(object)["attachments"] = nil })},
	)
	tryFaults(t, faults, 7)
}

// TestLiesInLinks gives answers with other links than those asked for.
func TestLiesInLinks(t *testing.T) {
	entry := func(change func(object)) func(*world, *feedsim.Dataset) { return lie("links", first(change, "files")) }
	lies := map[string]func(*world, *feedsim.Dataset){
		"another name":     entry(put("file", "snapshot/other.parquet")),
		"no name":          entry(put("file", nil)),
		"no link":          entry(put("url", nil)),
		"no hash":          entry(put("sha256", nil)),
		"no size":          entry(put("sizeBytes", nil)),
		"an entry too few": lie("links", func(answer object) { answer["files"] = answer["files"].([]any)[1:] }),
		"an entry twice":   lie("links", func(answer object) { answer["files"] = append(answer["files"].([]any), answer["files"].([]any)[0]) }),
		"an entry more": lie("links", func(answer object) {
			more := object{}
			for member, value := range answer["files"].([]any)[0].(object) {
				more[member] = value
			}
			more["file"] = "snapshot/more.parquet"
			answer["files"] = append(answer["files"].([]any), more)
		}),
		"an entry that is missing too": lie("links", func(answer object) {
			answer["missing"] = []any{answer["files"].([]any)[0].(object)["file"]}
		}),
		"nothing of what was asked": lie("links", func(answer object) { answer["files"], answer["missing"] = []any{}, []any{} }),
		"an entry of 70 KiB":        entry(put("filename", strings.Repeat("n", 70<<10))),
	}
	var faults []feedFault
	for _, name := range sortedNames(lies) {
		faults = append(faults, feedFault{name: name, lie: lies[name], exit: 1, says: "malformed"})
	}
	for _, address := range []string{"::", "ftp://127.0.0.1/x", "file:///etc/passwd", "/relative", "https://", "http://127.0.0.1:1/closed"} {
		faults = append(faults, feedFault{name: "a link to " + address, lie: entry(put("url", address)), exit: 1, says: "message"})
	}
	script := func(fault feedsim.Fault) func(*world, *feedsim.Dataset) {
		return func(w *world, _ *feedsim.Dataset) { w.feed.Script(calls()[4].rule, fault) }
	}
	faults = append(faults,
		feedFault{name: "links of other files", lie: script(feedsim.WrongLinks()), exit: 1, says: "wrong-bytes"},
		feedFault{name: "hashes of other files", lie: script(feedsim.WrongHashes()), exit: 1, says: "message"},
		feedFault{name: "another size", lie: entry(put("sizeBytes", 7)), exit: 1, says: "message"},
		feedFault{name: "links of another version", exit: 1, says: "message", lie: lie("links", func(answer object) {
			for _, one := range answer["files"].([]any) {
				one.(object)["url"] = strings.Replace(one.(object)["url"].(string), "/3/", "/2/", 1)
			}
		})},
		feedFault{name: "all of them missing", exit: 1, says: "missing", lie: lie("links", func(answer object) {
			var names []any
			for _, one := range answer["files"].([]any) {
				names = append(names, one.(object)["file"])
			}
			answer["files"], answer["missing"] = []any{}, names
		})},
		feedFault{name: "links that never expire", lie: lie("links", put("expiresAt", "9999-12-31T23:59:59Z")), published: 3},
		feedFault{name: "links that expire in words", lie: lie("links", put("expiresAt", "soon")), published: 3},
	)
	tryFaults(t, faults, 7)
}

// TestLinksToAnotherHostCarryNoKeyAndProveTheirBytes leads the pass to a host that is not the
// feed's, and that serves something else.
func TestLinksToAnotherHostCarryNoKeyAndProveTheirBytes(t *testing.T) {
	var asked, leaked atomic.Int64
	var key atomic.Pointer[string]
	elsewhere := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		for _, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), *key.Load()) {
				leaked.Add(1)
			}
		}
		_, _ = out.Write([]byte("not what you asked for")) // a client that has gone is no matter
	}))
	defer elsewhere.Close()
	tryFaults(t, []feedFault{{name: "links to another host", exit: 1, says: "message",
		lie: func(w *world, d *feedsim.Dataset) {
			known := w.feed.Key()
			key.Store(&known)
			lie("links", func(answer object) {
				for _, one := range answer["files"].([]any) {
					one.(object)["url"] = elsewhere.URL + "/x?signature=abc"
				}
			})(w, d)
		},
		check: func(t *testing.T, _ *world, _ mirror.Report) {
			if asked.Load() == 0 || leaked.Load() != 0 {
				t.Errorf("the other host was asked %d times, with the key %d times", asked.Load(), leaked.Load())
			}
		}}}, 1)
}
