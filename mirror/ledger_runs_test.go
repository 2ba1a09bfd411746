package mirror_test

import (
	"fmt"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/mirror"
)

// budgetRun is one way to read a bucket in parts.
type budgetRun struct {
	name   string
	part   int64 // one run reads this part of the bucket
	shards int
	news   int // versions that are released before each of so many first runs
}

// TestRunsWithABudgetReadEveryObjectOnce: whatever the parts, in shards, and while versions arrive. The
// bytes that were hashed in all runs are the bytes of all objects.
func TestRunsWithABudgetReadEveryObjectOnce(t *testing.T) {
	tally := evidence.Count(t, "ledger-runs")
	ways := []budgetRun{
		{name: "a tenth", part: 10, shards: 1},
		{name: "two shards", part: 10, shards: 2},
		{name: "versions arrive", part: 10, shards: 1, news: 3},
		{name: "versions arrive, in shards", part: 5, shards: 2, news: 2},
		{name: "all at once", part: 1, shards: 1},
		{name: "a third", part: 3, shards: 1},
		{name: "a seventh", part: 7, shards: 1},
		{name: "an object a run", part: 1 << 40, shards: 1},
		{name: "five shards", part: 4, shards: 5},
	}
	for _, way := range ways[:evidence.Size(4, len(ways))] {
		t.Run(way.name, func(t *testing.T) { readInParts(t, way, tally) })
	}
}

func readInParts(t *testing.T, way budgetRun, tally *evidence.Tally) {
	w, d, twin := twins(t)
	w.release(d, feedsim.ReleaseSpec{Parts: 3})
	w.sync(0)
	size, _ := w.checkedBytes()
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	part := max((size+way.part-1)/way.part, 1)
	total, read := map[string]int{}, int64(0)
	runs, open := 0, true
	for ; open || runs <= way.news; runs++ {
		if runs > 0 && runs <= way.news {
			w.release(d, feedsim.ReleaseSpec{Add: 2})
			w.release(twin, feedsim.ReleaseSpec{Add: 1})
			w.sync(0)
		}
		open = false
		for shard := range way.shards {
			beneath := w.store
			w.store = counting
			report := w.verify(budget(part), func(v *mirror.VerifyOptions) { v.Audit.Sharded = way.shards > 1 }, inShard(shard, way.shards))
			w.store = beneath
			open = open || report.Exit == audit.ExitStopped
			read += report.Checked.Bytes
			if n := report.NotChecked; report.Exit != 0 && report.Exit != audit.ExitStopped || n.Objects != n.Fresh+n.Budget || (report.Exit == audit.ExitStopped) != (n.Budget > 0) {
				t.Fatalf("run %d, shard %d: exit %d, not checked %+v, findings %+v", runs, shard, report.Exit, n, report.Findings)
			}
			tally.Add(1)
		}
		for key, times := range counting.take() {
			total[key] += times
		}
		w.clock.Advance(time.Hour)
		if runs > 500 {
			t.Fatal("runs never end")
		}
	}
	if way.news == 0 && way.shards == 1 && int64(runs) > way.part {
		t.Errorf("%d runs were needed", runs)
	}
	size, files := w.checkedBytes()
	for key := range files {
		if total[key] != 1 {
			t.Errorf("%s was read %d times", key, total[key])
		}
	}
	if read != size {
		t.Errorf("%d bytes were hashed in all, the objects have %d", read, size)
	}
}

func inShard(shard, of int) func(*mirror.VerifyOptions) {
	return func(v *mirror.VerifyOptions) {
		v.Audit.Partial = of > 1
		v.Audit.Select = func(dataset string) bool { return mirror.InShard(dataset, shard, of) }
	}
}

// TestTwoAuditsAtOnceLeaveNothingOut: both may read the same, and what either read is known afterwards.
func TestTwoAuditsAtOnceLeaveNothingOut(t *testing.T) {
	tally := evidence.Count(t, "ledger-runs")
	w, _, _ := twins(t)
	w.sync(0)
	size, files := w.checkedBytes()
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	w.store = counting
	for round := 0; ; round++ {
		ends := make(chan error)
		stopped := make(chan bool, 2)
		for range 2 {
			o := w.verifyOptions(budget(size/6 + 1))
			go func() {
				report, err := mirror.Verify(t.Context(), o)
				if err == nil && report.Exit != 0 && report.Exit != audit.ExitStopped {
					err = fmt.Errorf("exit %d", report.Exit)
				}
				stopped <- report.Exit == audit.ExitStopped
				ends <- err
			}()
		}
		for range 2 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
			tally.Add(1)
		}
		first, second := <-stopped, <-stopped
		if !first && !second {
			break
		}
		w.clock.Advance(time.Hour)
		if round > 20 || t.Failed() {
			t.Fatalf("after %d rounds there is still something to read", round)
		}
	}
	reads := counting.take()
	for key := range files {
		if reads[key] == 0 {
			t.Errorf("%s was never read", key)
		}
	}
}
