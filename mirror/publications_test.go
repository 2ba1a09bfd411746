package mirror_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/tables"
	"feedmirror/mirror"
)

// publications returns what the table of publications says of a dataset's moves, one line each.
func (w *world) publications(dataset string) []string {
	w.t.Helper()
	var rows []tables.Publication
	for info, err := range w.store.List(context.Background(), tables.PublicationsRoot, "") {
		if err != nil {
			w.t.Fatal(err)
		}
		if !strings.HasSuffix(info.Key, ".parquet") || strings.Contains(info.Key, "_delta_log/") {
			continue
		}
		these, err := tables.ReadPublications(context.Background(), w.store, info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		rows = append(rows, these...)
	}
	rows = slices.DeleteFunc(rows, func(row tables.Publication) bool { return row.Dataset != dataset })
	slices.SortFunc(rows, func(a, b tables.Publication) int { return int(a.Move - b.Move) })
	var lines []string
	for _, row := range rows {
		previous := int64(0)
		if row.PreviousVersion != nil {
			previous = *row.PreviousVersion
		}
		lines = append(lines, fmt.Sprintf("%d to %d by %s: reload %t, apply %v, rewrite %v", previous, row.Version, row.Action, row.Reload, row.ApplyVersions, row.RewriteVersions))
	}
	return lines
}

// TestAMovePassesOverVersionsAndSaysWhatIsOnTheWay: a move that ends at a version with changes can have
// passed over one that must be reloaded, one that replaced ids, and one that nobody could copy. The row
// of the move tells, whatever its version's own facts are.
func TestAMovePassesOverVersionsAndSaysWhatIsOnTheWay(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	approve := func() {
		t.Helper()
		if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
			t.Fatal(err)
		}
	}
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{})
	w.release(d, feedsim.ReleaseSpec{Empty: true})
	w.release(d, feedsim.ReleaseSpec{Minor: true, Add: 1})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Retype: true, Add: 1})
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0)
	w.published(permits, 4)
	approve() // 4 to 6, over the MAJOR that was held
	w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0) // 7 replaces ids
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 6); err != nil {
		t.Fatal(err)
	}
	approve()                                                 // 8 again, over the same ids
	w.release(d, feedsim.ReleaseSpec{Add: 2, RowCountOff: 1}) // in doubt: it waits
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0) // 8 to 10, over a version in doubt
	w.release(d, feedsim.ReleaseSpec{})
	w.clock.Advance(100 * 24 * time.Hour) // it is past retention before it was copied
	w.release(d, feedsim.ReleaseSpec{})
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0, full) // 10 to 12, over one that is not here
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 12); err != nil {
		t.Fatal(err)
	}
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0)
	approve() // 12 to 14 in one move
	want := []string{
		"0 to 1 by publish: reload true, apply [], rewrite []",
		"1 to 2 by publish: reload false, apply [2], rewrite []",
		"2 to 3 by publish: reload false, apply [], rewrite []",
		"3 to 4 by publish: reload false, apply [4], rewrite []",
		"4 to 6 by approve: reload true, apply [], rewrite []",
		"6 to 7 by publish: reload true, apply [], rewrite [7]",
		"7 to 8 by publish: reload false, apply [8], rewrite []",
		"8 to 6 by rollback: reload true, apply [], rewrite []",
		"6 to 8 by approve: reload true, apply [], rewrite [7]",
		"8 to 10 by publish: reload true, apply [], rewrite []",
		"10 to 12 by publish: reload true, apply [], rewrite []",
		"12 to 13 by publish: reload false, apply [13], rewrite []",
		"13 to 12 by rollback: reload true, apply [], rewrite []",
		"12 to 14 by approve: reload false, apply [13 14], rewrite []",
	}
	if diff := cmp.Diff(want, w.publications(permits)); diff != "" {
		t.Error(diff)
	}
}
