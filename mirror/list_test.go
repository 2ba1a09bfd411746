package mirror_test

import (
	"context"
	"testing"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/mirror"
	"feedmirror/state"
)

func (w *world) shards() []*state.Shard {
	w.t.Helper()
	var list []*state.Shard
	for info, err := range w.store.List(context.Background(), "_mirror/shards/", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		shard, _, err := state.Read[state.Shard](context.Background(), w.store, info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, shard)
	}
	return list
}

func TestADecisionIsNotOwedForEverByOtherShards(t *testing.T) {
	w, d := permitsWorld(t)
	parts := []func(*mirror.Options){
		func(o *mirror.Options) { o.ShardIndex, o.ShardOf = 0, 2 },
		func(o *mirror.Options) { o.ShardIndex, o.ShardOf = 1, 2 },
		func(o *mirror.Options) { o.Filter = []string{"zoning*"} },
	}
	for _, part := range parts {
		w.sync(0, part)
	}
	w.release(d, feedsim.ReleaseSpec{Major: true})
	for _, part := range parts {
		w.sync(0, part)
	}
	if _, err := mirror.Approve(context.Background(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		w.sync(0, part)
	}
	for _, shard := range w.shards() {
		if len(shard.Owed) != 0 {
			t.Errorf("shard of filter %v still owes %+v", shard.Filter, shard.Owed)
		}
	}
}
