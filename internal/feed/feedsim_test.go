package feed_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
)

// TestClientReadsTheSimulatedFeed walks a feed with every situation once under the default
// assumptions and once under each alternative.
func TestClientReadsTheSimulatedFeed(t *testing.T) {
	all := append([]feedsim.Alternative{{Name: "default", Apply: func(*feedsim.Assume) {}}}, feedsim.Alternatives()...)
	for _, alternative := range all {
		t.Run(alternative.Name, func(t *testing.T) {
			options := feedsim.Options{Seed: 1, Clock: feedsim.NewClock(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)), PageSize: 2}
			alternative.Apply(&options.Assume)
			sim := startSim(t, options)
			client := simClient(t, sim)
			for _, id := range []string{"ds_first", "ds_second", "ds_third"} {
				addReleases(t, sim, id)
			}
			want := []string{"ds_first", "ds_second", "ds_third"}
			var ids []string
			listing, err := client.Datasets(t.Context(), time.Time{}, func(d feed.Dataset) error { ids = append(ids, d.ID); return nil })
			if slices.Sort(ids); err != nil || !slices.Equal(ids, want) || len(listing.Bad) != 0 || listing.Date.IsZero() {
				t.Fatalf("listed %v, %+v, %v", ids, listing, err)
			}
			readChain(t, sim, client, "ds_first")
			checkRefusals(t, sim, client, options.Assume)
			if seen := sim.ViolationsSeen(); len(seen) != 0 {
				t.Errorf("violations: %v", seen)
			}
		})
	}
}

func startSim(t *testing.T, options feedsim.Options) *feedsim.Feed {
	t.Helper()
	sim, err := feedsim.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	})
	return sim
}

func simClient(t *testing.T, sim *feedsim.Feed) *feed.Client {
	t.Helper()
	client, err := feed.New(feed.Options{
		BaseURL: sim.URL(),
		Key:     func() (string, error) { return sim.Key(), nil },
		Sleep:   func(_ context.Context, d time.Duration) error { sim.Clock().Advance(d); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func addReleases(t *testing.T, sim *feedsim.Feed, id string) {
	t.Helper()
	dataset, err := sim.AddDataset(feedsim.DatasetSpec{ID: id, Place: "fl-county-orange", Character: feedsim.Points, Rows: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []feedsim.ReleaseSpec{{}, {Add: 1, Remove: 1, SkipNumbers: 2}, {Empty: true}, {Major: true}, {ReplaceIDs: true}} {
		if _, err := dataset.Release(spec); err != nil {
			t.Fatal(err)
		}
	}
}

// readChain reads every version and asks for fresh links to all of its files.
func readChain(t *testing.T, sim *feedsim.Feed, client *feed.Client, id string) {
	t.Helper()
	var chain []manifest.Version
	if err := client.Versions(t.Context(), id, 0, func(v manifest.Version) error { chain = append(chain, v); return nil }); err != nil {
		t.Fatal(err)
	}
	current, err := client.Dataset(t.Context(), id)
	if err != nil || int64(current.Current) != sim.Dataset(id).Current() || len(chain) != 5 || chain[4].Number != current.Current {
		t.Fatalf("current is %+v, %v, chain %v", current, err, chain)
	}
	previous := manifest.Number(0)
	kinds := map[manifest.Kind]int{}
	for _, version := range chain {
		if version.Previous != previous {
			t.Errorf("version %d follows %d, want %d", version.Number, version.Previous, previous)
		}
		previous = version.Number
		checkVersion(t, client, id, version.Number, kinds)
	}
	for _, kind := range []manifest.Kind{manifest.KindSnapshot, manifest.KindChanges, manifest.KindIDMap, manifest.KindSchema, ""} {
		if kinds[kind] == 0 {
			t.Errorf("saw no entry of kind %q", kind)
		}
	}
}

// checkVersion reads a version and counts the kinds of its entries.
func checkVersion(t *testing.T, client *feed.Client, id string, n manifest.Number, kinds map[manifest.Kind]int) {
	t.Helper()
	entries := map[string]feed.Entry{}
	var names []string
	answer, err := client.Version(t.Context(), id, n, func(e feed.Entry) error {
		entries[e.Name] = e
		names = append(names, e.Name)
		kinds[e.Kind]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Version.Number != n || answer.Lifetime < 59*time.Minute || answer.Lifetime > 61*time.Minute || answer.Received.IsZero() {
		t.Errorf("answer %+v, lifetime %s", answer.Version, answer.Lifetime)
	}
	links, err := client.Links(t.Context(), id, n, append(names, "source:unknown"))
	if err != nil || len(links.Entries) != len(entries) || !slices.Equal(links.Missing, []string{"source:unknown"}) {
		t.Fatalf("links %v, missing %v", err, links.Missing)
	}
	for _, link := range links.Entries {
		if link.SHA256 != entries[link.Name].SHA256 || link.Size != entries[link.Name].Size {
			t.Errorf("link to %s has other facts than the version's answer", link.Name)
		}
	}
}

func checkRefusals(t *testing.T, sim *feedsim.Feed, client *feed.Client, assume feedsim.Assume) {
	t.Helper()
	second := sim.Dataset("ds_second")
	number := second.Current()
	if err := second.ReleaseAgain(number); err != nil {
		t.Fatal(err)
	}
	_, err := client.Version(t.Context(), "ds_second", manifest.Number(number), nil)
	wantKind(t, err, fault.Gone)
	if said := assume.Errors != feedsim.ErrorBare; feed.ReleasedAgain(err) != said {
		t.Errorf("released again: got %v, want %v (%v)", !said, said, err)
	}
	_, err = client.Version(t.Context(), "ds_second", manifest.Number(number+1000), nil)
	wantKind(t, err, fault.NotFound)
	sim.Dataset("ds_third").Unsubscribe()
	_, err = client.Links(t.Context(), "ds_third", manifest.Number(sim.Dataset("ds_third").Current()), []string{"original"})
	wantKind(t, err, fault.NotSubscribed)

	bad, err := feed.New(feed.Options{BaseURL: sim.URL(), Key: func() (string, error) { return "other", nil },
		Sleep: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bad.Dataset(t.Context(), "ds_first")
	wantKind(t, err, fault.Denied)
}
