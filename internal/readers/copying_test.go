//go:build readers

package readers_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// partsLimit bounds the time until a pass has written the parts of a version.
const partsLimit = time.Minute

// TestVersionThatIsBeingCopied asks for a version by its number while a real pass copies it: its parts
// stand in the bucket and its record does not, since the feed holds back the last bytes of its schema. The view that
// Athena and Trino share shows no row of it, and all once it is published.
func TestVersionThatIsBeingCopied(t *testing.T) {
	w, stop := newWorld(t, newPlace(t, inFolder))
	defer stop(t)
	d := w.dataset(t, feedsim.DatasetSpec{ID: orange, Character: feedsim.Points, Rows: 20, Parts: 2})
	w.release(t, d, feedsim.ReleaseSpec{})
	w.mirror(t, "sync")
	engine := newTrino(t)
	engine.database = "copying"
	engine.execute(t, engine.ownScript(t, w, engine.database))
	_, views := athenaScript(t, w.mirror(t, "ddl", "--engine", "athena", "--database", engine.database))
	engine.server.Catalog = "hive"
	for _, view := range views {
		engine.rows(t, "%s", view)
	}

	version := w.release(t, d, feedsim.ReleaseSpec{Add: 3, Change: 2})
	goOn := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(goOn) })
	defer letGo() // a pass that nobody waits for any more must end
	w.feed.Script(feedsim.Rule{Version: version, File: "schema.json", Times: feedsim.Always}, feedsim.Stall(10, goOn, 0))
	passed := make(chan error, 1)
	go func() {
		_, err := w.run(t.Context(), "sync")
		passed <- err
	}()
	root := folder(w.place.files(t))
	awaitParts(t, root, version, 2, passed)
	read := func(table string) int {
		return len(engine.rows(t, "SELECT _ploti_record_id FROM hive.%s.%s WHERE ploti_version = '%010d'", engine.database, table, version).Rows)
	}
	view := tableName(orange) + "_versions_m1"
	files, shown := read(view+"_files"), read(view)
	select {
	case err := <-passed:
		t.Fatalf("the pass ended before anybody asked: %v", err)
	default:
	}
	letGo()
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	w.at(t, orange, version)
	after := read(view)
	want := len(root.rows(t, root.record(t, orange, version), "snapshot").Rows)
	if files != want || shown != 0 || after != want {
		t.Errorf("while version %d was copied its files had %d rows and the view showed %d, then %d; want %d, 0 and %d", version, files, shown, after, want, want)
	}
	check(t, string(root))
	seen.note("A version that was being copied: %d rows in its files, %d in the view; %d once it was published", files, shown, after)
}

// awaitParts waits until the parts of a version stand, and wants no record beside them.
func awaitParts(t *testing.T, root folder, version int64, parts int, passed <-chan error) {
	t.Helper()
	limit := time.NewTimer(partsLimit)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	record := root.path("versions/" + orange + "/" + padded(version) + "/record.json")
	for {
		found, err := filepath.Glob(root.path("snapshot/ploti_dataset_id=" + orange + "/ploti_version=" + padded(version) + "/*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == parts {
			break
		}
		select {
		case err := <-passed:
			t.Fatalf("the pass ended before its parts were seen: %v", err)
		case <-limit.C:
			t.Fatalf("%d of %d parts after %s", len(found), parts, partsLimit)
		case <-tick.C:
		}
	}
	if there, err := filepath.Glob(record); err != nil || len(there) > 0 {
		t.Fatalf("the record stands already: %v, %v", there, err)
	}
}

func padded(version int64) string {
	digits := number(version)
	return strings.Repeat("0", 10-len(digits)) + digits
}
