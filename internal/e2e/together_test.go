package e2e_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

// manyDatasets adds datasets whose ids are chosen to be near each other in byte order, and returns
// the ids with their newest versions.
func (w *world) manyDatasets() map[string]int64 {
	w.t.Helper()
	newest := map[string]int64{}
	for i, id := range []string{"ds_a", "ds_a-b", "ds_a.b", "ds_a0", "ds_aa", "ds_b", "DS_b", "ds_c"} {
		character := []feedsim.Character{feedsim.Points, feedsim.Plain, feedsim.Polygons, feedsim.Archive}[i%4]
		d := w.dataset(feedsim.DatasetSpec{ID: id, Character: character, Rows: 6}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
		newest[id] = d.Current()
	}
	return newest
}

// allPublished wants every pointer at its newest version and an audit without findings.
func (w *world) allPublished(newest map[string]int64) {
	w.t.Helper()
	for id, version := range newest {
		w.published(id, version)
	}
	audit := decode[struct {
		Checked struct{ Datasets, Records int }
	}](w.t, w.run(0, "verify", "--output", "json"))
	if audit.Checked.Datasets != len(newest) || audit.Checked.Records != 2*len(newest) {
		w.t.Errorf("verify saw %+v, want %d datasets of two records each", audit.Checked, len(newest))
	}
}

// TestTwoRunsAtOnceShareTheWork starts two runs on an empty bucket at the same moment.
func TestTwoRunsAtOnceShareTheWork(t *testing.T) {
	for store, open := range map[string]func(*testing.T) place{"folder": folderPlace, "versitygw": places()["versitygw"]} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open(t), feedsim.Options{})
			newest := w.manyDatasets()
			var runs [2]*run
			for i := range runs {
				runs[i] = w.start(nil, "sync", "--output", "json", "--lease-ttl", "2s")
			}
			var total report
			for _, r := range runs {
				done := r.wait()
				if done.exit != 0 {
					t.Fatalf("a run ended with %d\n%s%s", done.exit, done.out, tail(done.err))
				}
				one := decode[report](t, done)
				total.Versions.Committed += one.Versions.Committed
				total.Files.Copied += one.Files.Copied
				total.Datasets.Busy += one.Datasets.Busy
			}
			if total.Versions.Committed != 2*len(newest) || total.Datasets.Busy > len(newest) {
				t.Errorf("both together: %+v", total)
			}
			w.fetchedOnce()
			if r := w.sync(0); r.Files.Copied != 0 || r.Datasets.Owed != 0 {
				t.Errorf("the next run: %+v", r)
			}
			w.allPublished(newest)
		})
	}
}

// TestARunBesideALivingOneSaysBusy starts a run while another one works on the only dataset.
func TestARunBesideALivingOneSaysBusy(t *testing.T) {
	for store, open := range map[string]func(*testing.T) place{"folder": folderPlace, "versitygw": places()["versitygw"]} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			h := newHalfway(t, open(t), "--lease-ttl", "3s")
			second := h.world.run(0, "sync", "--output", "json", "--lease-ttl", "3s")
			if r := decode[report](t, second); r.Datasets.Busy != 1 || r.Datasets.Owed != 1 || r.Files.Copied != 0 || len(r.Notes) != 1 || r.Notes[0].Kind != "busy" {
				t.Errorf("the second run: %+v", r)
			}
			t.Logf("the second run took %s", second.took)
			h.release()
			if done := h.run.wait(); done.exit != 0 {
				t.Errorf("the first run ended with %d\n%s", done.exit, tail(done.err))
			}
			h.fetchedOnce()
			h.published(bulky, 1)
			if r := h.sync(0); r.Files.Copied != 0 || r.Datasets.Owed != 0 {
				t.Errorf("the third run: %+v", r)
			}
		})
	}
}

// TestShardsInParallel runs four shards at the same moment, as an Indexed Job does.
func TestShardsInParallel(t *testing.T) {
	for store, open := range map[string]func(*testing.T) place{"folder": folderPlace, "versitygw": places()["versitygw"]} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			const shards = 4
			w := newWorld(t, open(t), feedsim.Options{})
			newest := w.manyDatasets()
			var runs [shards]*run
			for i := range runs {
				runs[i] = w.start([]string{fmt.Sprintf("JOB_COMPLETION_INDEX=%d", i), fmt.Sprintf("JOB_COMPLETIONS=%d", shards)}, "sync", "--output", "json")
			}
			seen, busy := 0, 0
			for _, r := range runs {
				done := r.wait()
				if done.exit != 0 {
					t.Fatalf("a shard ended with %d\n%s%s", done.exit, done.out, tail(done.err))
				}
				one := decode[report](t, done)
				seen, busy = seen+one.Datasets.Seen, busy+one.Datasets.Busy
			}
			if seen != len(newest) || busy != 0 {
				t.Errorf("the shards saw %d datasets with %d busy, want %d and none", seen, busy, len(newest))
			}
			w.fetchedOnce()
			documents, err := filepath.Glob(filepath.Join(w.place.files(t), "_mirror/shards/*-of-4-*.json"))
			if err != nil || len(documents) != shards {
				t.Errorf("shard documents %v, %v", documents, err)
			}
			w.allPublished(newest)
			if shown := w.statusDatasets(); !slices.Equal(shown, slices.Sorted(maps.Keys(newest))) {
				t.Errorf("status shows %s", strings.Join(shown, " "))
			}
		})
	}
}

func (w *world) statusDatasets() []string {
	w.t.Helper()
	var ids []string
	for _, one := range decode[struct{ Datasets []datasetStatus }](w.t, w.run(0, "status", "--output", "json")).Datasets {
		ids = append(ids, one.Dataset)
	}
	return ids
}
