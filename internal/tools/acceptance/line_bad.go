package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/internal/testservers"
)

// badSettings: what is wrong with a key, a command line or a bucket.
func badSettings(ctx context.Context, s *stage) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		if _, err := three(feed); err != nil {
			return err
		}
		folder := s.dir + "/bucket"
		for _, key := range []string{"", "wrong-key"} {
			feed.ResetLog()
			e, err := s.mirror(ctx, s.environment(feed, "PLOTI_API_KEY="+key), "sync", "--bucket", "file://"+folder)
			if err != nil {
				return err
			}
			told := e.out + e.err
			s.want(e.exit == 4 && feed.APICalls() <= 2 && strings.Contains(told, "PLOTI_API_KEY") && !strings.Contains(told, "wrong-key"),
				"key %q: exit %d, %d requests; the fix is named, the key is not", key, e.exit, feed.APICalls())
		}
		if err := s.badLine(ctx, feed); err != nil {
			return err
		}
		found, err := files(folder)
		if err != nil {
			return err
		}
		s.want(len(found) == 0, "%d files were written", len(found))
		return withVersity(func(server testservers.S3) error { return s.badBucket(ctx, feed, server) })
	})
}

// badLine makes mistakes of each kind in one command line and wants all of them told.
func (s *stage) badLine(ctx context.Context, feed *feedsim.Feed) error {
	config := filepath.Join(s.dir, "bad.yaml")
	if err := os.WriteFile(config, []byte("transfer:\n  speed: fast\n"), 0o644); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	e, err := s.mirror(ctx, s.environment(feed), "sync", "--no-such-flag", "--config", config, "--bucket", "ftp://somewhere", "--datasets", "[a")
	if err != nil {
		return err
	}
	var missing []string
	for _, word := range []string{"no-such-flag", "transfer.speed", "ftp", "[a"} {
		if !strings.Contains(e.err, word) {
			missing = append(missing, word)
		}
	}
	s.want(e.exit == 2 && len(missing) == 0, "unknown flag, YAML key, bucket scheme and bad glob at once: exit %d, not told: %q", e.exit, missing)
	return nil
}

func (s *stage) badBucket(ctx context.Context, feed *feedsim.Feed, server testservers.S3) error {
	denied := server
	denied.SecretKey = "another"
	for name, one := range map[string]testservers.S3{"missing": server, "denied": denied} {
		feed.ResetLog()
		there := place{server: server, bucket: "absent"}
		if name == "denied" {
			there.bucket = "ready"
		}
		e, err := s.sync(ctx, s.environment(feed, credentials(one)...), 5, there.url(server.Endpoint))
		if err != nil {
			return err
		}
		s.want(e.exit == 5 && downloads(feed) == 0, "bucket %s: exit %d, %d downloads: %s", name, e.exit, downloads(feed), e.complaint())
	}
	return nil
}

func downloads(feed *feedsim.Feed) int {
	count := 0
	for _, event := range feed.Log() {
		if event.Side == feedsim.SideLinks {
			count++
		}
	}
	return count
}

// badWorld is a folder that mirrors three datasets, with one more release each to come.
type badWorld struct {
	*stage
	ctx      context.Context //nolint:containedctx // of the one line it serves
	feed     *feedsim.Feed
	datasets map[string]*feedsim.Dataset
	folder   string
	env      []string
}

// bad runs a case against a world of its own: change makes the feed misbehave, then a pass must end
// with exit, name what failed, and lose nothing; undo and one more pass must make all good.
func (s *stage) bad(ctx context.Context, name string, exit int, change func(*badWorld) (undo func() error, err error)) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		datasets, err := three(feed)
		if err != nil {
			return err
		}
		folder := s.dir + "/bucket"
		w := &badWorld{s, ctx, feed, datasets, folder, s.environment(feed)}
		if _, err := s.sync(ctx, w.env, 0, "file://"+folder); err != nil {
			return err
		}
		if err := w.judge(name, exit, change); err != nil {
			return err
		}
		return os.RemoveAll(folder)
	})
}

func (w *badWorld) judge(name string, exit int, change func(*badWorld) (func() error, error)) error {
	undo, err := change(w)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	before, err := invariant.Take(invariant.Folder(w.folder))
	if err != nil {
		return err
	}
	e, err := w.sync(w.ctx, w.env, exit, "file://"+w.folder, "--full", "--transfer-attempts", "2")
	if err != nil {
		return err
	}
	after, err := invariant.Take(invariant.Folder(w.folder))
	if err != nil {
		return err
	}
	named := e.namesAll()
	if !named {
		w.want(false, "%s: object, side, message or fix is missing: %s", name, e.complaint())
	}
	violations := len(invariant.Compare(before, after)) + len(invariant.Check(invariant.Folder(w.folder)))
	pointers := maps.Equal(pointersOf(before, "ds_permits"), pointersOf(after, "ds_permits"))
	w.want(e.exit == exit && named && pointers && violations == 0, "%s: exit %d; each of %d failures has object, side, message and fix: %s; %d violations; pointer kept: %s",
		name, e.exit, len(e.report.Failures), yesNo(named), violations, yesNo(pointers))
	if err := undo(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	again, err := w.sync(w.ctx, w.env, 0, "file://"+w.folder, "--full")
	if err == nil && again.exit != 0 {
		w.want(false, "%s: once the feed is well again, exit %d", name, again.exit)
	}
	return err
}

// namesAll reports whether there are failures, and each says what, where, why and what to do.
func (e ended) namesAll() bool {
	for _, f := range e.report.Failures {
		// What fails the list of datasets has no object but the list.
		if f.Message == "" || f.Hint == "" || f.Side == "" || (f.Object == "" && f.Dataset != "") {
			return false
		}
	}
	return len(e.report.Failures) > 0
}

// pointersOf returns the pointer of a dataset: it must not move to a version that failed.
func pointersOf(s invariant.Snapshot, dataset string) map[string]invariant.Object {
	key := "current/" + dataset + ".json"
	return map[string]invariant.Object{key: s.Objects[key]}
}

// release releases a further version of the permits.
func (w *badWorld) release() (*feedsim.Dataset, int64, error) {
	d := w.datasets["ds_permits"]
	number, err := d.Release(feedsim.ReleaseSpec{Add: 2, Change: 1})
	return d, number, err
}

// script makes each request that matches go wrong.
func script(rule feedsim.Rule, fault feedsim.Fault, release bool) func(*badWorld) (func() error, error) {
	return func(w *badWorld) (func() error, error) {
		if release {
			if _, _, err := w.release(); err != nil {
				return nil, err
			}
		}
		rule.Times = feedsim.Always
		w.feed.Script(rule, fault)
		return func() error { w.feed.ClearScript(); return nil }, nil
	}
}

// garbage: answers of the feed that are none, and files with wrong bytes.
func garbage(ctx context.Context, s *stage) error {
	list := feedsim.Rule{Side: feedsim.SideAPI, Match: func(r feedsim.Request) bool { return r.Dataset == "" }}
	version := feedsim.Rule{Side: feedsim.SideAPI, Dataset: "ds_permits", Resource: "versions"}
	part := feedsim.Rule{Side: feedsim.SideLinks, Dataset: "ds_permits", File: "snapshot/part-0000.parquet"}
	for _, one := range []struct {
		name   string
		exit   int
		change func(*badWorld) (func() error, error)
	}{
		{"HTML with 200 for the list of datasets", 4, script(list, feedsim.HTML(), true)},
		{"truncated JSON for the list of datasets", 4, script(list, feedsim.Truncate(60, feedsim.TruncateShortLength), true)},
		{"HTML with 200 for a dataset's call", 1, script(version, feedsim.HTML(), true)},
		{"truncated JSON for a dataset's call", 1, script(version, feedsim.Truncate(60, feedsim.TruncateShortLength), true)},
		{"a file with a wrong byte", 1, script(part, feedsim.FlipByte(100), true)},
		{"a file that is too short", 1, script(part, feedsim.Truncate(500, feedsim.TruncateShortLength), true)},
		{"a file that is too long", 1, script(part, feedsim.Append("x"), true)},
		{"HTML with 200 for a file", 1, script(part, feedsim.HTML(), true)},
		{"a dataset id that no key may hold", 1, listed(strange)},
		{"an empty list in a full pass", 1, listed(func([]byte) []byte { return []byte(`{"datasets":[],"nextCursor":null}`) })},
	} {
		if err := s.bad(ctx, one.name, one.exit, one.change); err != nil {
			return err
		}
	}
	return s.freshLink(ctx)
}

// listed changes the list of datasets.
func listed(change func([]byte) []byte) func(*badWorld) (func() error, error) {
	return func(w *badWorld) (func() error, error) {
		w.feed.OverrideList(change)
		return func() error { w.feed.OverrideList(nil); return nil }, nil
	}
}

func strange(data []byte) []byte {
	return []byte(strings.Replace(string(data), `"datasets":[`, `"datasets":[{"id":"../../etc","datasetId":"../../etc","current":{"version":1}},`, 1))
}

// freshLink wants wrong bytes once to be followed by another try over a fresh link.
func (s *stage) freshLink(ctx context.Context) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		if _, err := three(feed); err != nil {
			return err
		}
		feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Dataset: "ds_permits", Version: 1, File: "snapshot/part-0000.parquet"}, feedsim.FlipByte(100))
		folder := s.dir + "/once"
		e, err := s.sync(ctx, s.environment(feed), 0, "file://"+folder)
		if err != nil {
			return err
		}
		signed := feed.SignedNames()[feedsim.FileKey("ds_permits", 1, "snapshot/part-0000.parquet")]
		s.want(e.exit == 0 && signed == 2, "a wrong byte once: exit %d, its name was signed %d times, the second time for the next try", e.exit, signed)
		s.wantOnce(feed)
		s.invariants(folder)
		return nil
	})
}
