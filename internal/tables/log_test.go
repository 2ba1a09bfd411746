package tables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
)

const root = "snapshot/ploti_dataset_id=ds/"

func newLog(t *testing.T) (log, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := localstore.New(localstore.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	return log{store: store, root: root}, dir
}

func addOf(name string) action {
	return action{Add: &addFile{Path: name, PartitionValues: map[string]string{"ploti_dataset_id": "ds"}, Size: 3, DataChange: true, Stats: `{"numRecords":1}`}}
}

// appendOne commits one more file, whatever stands.
func appendOne(ctx context.Context, l log, name string) (listing, error) {
	return l.commit(ctx, func(_ context.Context, found listing) ([]action, error) {
		if found.head < 0 {
			p, m := protocolFor(nil, false), &metaData{ID: "id", Name: "t", Format: formatJSON{Provider: "parquet", Options: map[string]string{}}, SchemaString: "{}", PartitionColumns: []string{"ploti_dataset_id"}, Configuration: tableConfiguration()}
			return []action{{Protocol: &p}, {MetaData: m}, addOf(name)}, nil
		}
		return []action{addOf(name)}, nil
	})
}

func TestTwoWritersNeverTakeTheSameNumberAndLoseNothing(t *testing.T) {
	l, _ := newLog(t)
	const each = 20
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for i := range each {
				if _, err := appendOne(t.Context(), l, fmt.Sprintf("w%d-%d", writer, i)); err != nil {
					t.Errorf("writer %d: %v", writer, err)
					return
				}
			}
		})
	}
	group.Wait()
	found, err := l.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.contents(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	if found.head != 4*each-1 || len(all.files) != 4*each {
		t.Errorf("head %d with %d files, want %d commits with a file each", found.head, len(all.files), 4*each)
	}
}

func TestACommitWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	l, _ := newLog(t)
	inner := l.store
	if _, err := appendOne(t.Context(), l, "a"); err != nil {
		t.Fatal(err)
	}
	l.store = &buckettest.LostAnswer{Store: inner.(*localstore.Store), Nth: 1}
	if _, err := appendOne(t.Context(), l, "b"); err != nil {
		t.Fatal(err)
	}
	l.store = inner
	found, err := l.list(t.Context())
	if err != nil || found.head != 1 {
		t.Errorf("head %d, %v; want 1", found.head, err)
	}
}

func TestACheckpointSaysWhatItsCommitsSay(t *testing.T) {
	l, dir := newLog(t)
	for i := range checkpointEvery + 3 {
		found, err := appendOne(t.Context(), l, fmt.Sprintf("part %d ü", i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 7 {
			_, err = l.commit(t.Context(), func(context.Context, listing) ([]action, error) {
				return []action{{Remove: removal(addOf("part 3 ü").Add, time.Unix(0, 0))}, {Txn: &txn{AppID: "ploti:ds", Version: 42, LastUpdated: 7}}}, nil
			})
		}
		if err = errors.Join(err, l.checkpointIfDue(t.Context(), found)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := l.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.checkpoint < 0 || found.commits[0] != found.checkpoint {
		t.Fatalf("the listing does not begin at the checkpoint: %+v", found)
	}
	short, err := l.contents(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, root, "_delta_log/_last_checkpoint")); err != nil {
		t.Fatal(err)
	}
	found, err = l.list(t.Context())
	if err != nil || found.commits[0] != 0 {
		t.Fatalf("without the hint: %+v, %v", found, err)
	}
	found.checkpoint = -1
	long, err := l.contents(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	for path, f := range short.files {
		f.DataChange = true // a checkpoint's adds change nothing
		short.files[path] = f
	}
	if diff := cmp.Diff(long, short, cmp.AllowUnexported(contents{})); diff != "" {
		t.Error(diff)
	}
	if _, there := short.files["part 3 ü"]; there || len(short.files) != checkpointEvery+2 {
		t.Errorf("%d files", len(short.files))
	}
}

func TestAHintThatOutlivedItsCheckpointHidesNothing(t *testing.T) {
	l, dir := newLog(t)
	for i := range 3 {
		if _, err := appendOne(t.Context(), l, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, hint := range []string{`{"version":2,"size":3}`, `{"version":900}`, `garbage`, `{"version":-1}`, ``} {
		if err := os.WriteFile(filepath.Join(dir, root, "_delta_log/_last_checkpoint"), []byte(hint), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := l.list(t.Context())
		if err != nil || !slices.Equal(found.commits, []int64{0, 1, 2}) {
			t.Errorf("hint %q: %+v, %v", hint, found, err)
		}
	}
}

func TestALogWithAHoleIsNotWrittenTo(t *testing.T) {
	for _, lost := range []int{0, 1} {
		l, dir := newLog(t)
		for i := range 4 {
			if _, err := appendOne(t.Context(), l, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(dir, l.commitKey(int64(lost)))); err != nil {
			t.Fatal(err)
		}
		var damaged *DamagedError
		if _, err := appendOne(t.Context(), l, "more"); !errors.As(err, &damaged) {
			t.Errorf("commit %d is lost: %v", lost, err)
		}
		files, err := os.ReadDir(filepath.Join(dir, root, "_delta_log"))
		if err != nil || len(files) != 3 {
			t.Errorf("%d files, %v", len(files), err)
		}
	}
}

func TestPathsAreEscapedOnce(t *testing.T) {
	for key, want := range map[string]string{
		root + "ploti_version=0000000001/part-0000.parquet":  "ploti_version=0000000001/part-0000.parquet",
		root + "ploti_version=0000000001/Größe 100%.parquet": "ploti_version=0000000001/Gr%C3%B6%C3%9Fe%20100%25.parquet",
		root + "a+b&c;d?e#f.parquet":                         "a+b&c%3Bd%3Fe%23f.parquet",
	} {
		path, err := relativePath(root, key)
		if err != nil || path != want {
			t.Errorf("%s: %s, %v; want %s", key, path, err, want)
		}
		if back, err := keyOf(root, path); err != nil || back != key {
			t.Errorf("%s came back as %s, %v", key, back, err)
		}
	}
	if _, err := relativePath(root, "snapshot/ploti_dataset_id=other/x"); err == nil {
		t.Error("a key outside of the table: no error")
	}
}
