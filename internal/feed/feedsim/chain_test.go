package feedsim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

const day = 24 * time.Hour

// listed reads the whole list of versions, page by page, as numbers.
func listed(t *testing.T, feed *feedsim.Feed, dataset, order string, after int) []int64 {
	t.Helper()
	var numbers []int64
	query := url.Values{"order": {order}, "after": {fmt.Sprint(after)}}
	for page := 0; ; page++ {
		if page > 10 {
			t.Fatalf("the list does not end: %v", numbers)
		}
		status, body := call(t, feed, http.MethodGet, "/v1/feeds/datasets/"+dataset+"/versions?"+query.Encode(), "")
		var shown struct {
			Versions   []versionAnswer
			NextCursor *string
		}
		if err := json.Unmarshal(body, &shown); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v %s", status, err, body)
		}
		for _, v := range shown.Versions {
			numbers = append(numbers, v.Version)
		}
		if shown.NextCursor == nil || *shown.NextCursor == "" {
			return numbers
		}
		query.Set("cursor", *shown.NextCursor)
	}
}

func wantList(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// wantRefusal checks that a version's two calls are refused alike.
func wantRefusal(t *testing.T, feed *feedsim.Feed, dataset string, number int64, status int, code, message string) {
	t.Helper()
	path := versionPath(dataset, number)
	for _, one := range []struct{ method, path string }{{http.MethodGet, path}, {http.MethodPost, path + "/links"}} {
		got, body := call(t, feed, one.method, one.path, `{"files":["schema.json"]}`)
		var refusal struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal(body, &refusal); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		if got != status || refusal.Error.Code != code || !strings.Contains(refusal.Error.Message, message) {
			t.Errorf("%s %s: %d %s, want %d %s %q", one.method, one.path, got, body, status, code, message)
		}
	}
}

func previousOf(t *testing.T, feed *feedsim.Feed, number int64) int64 {
	t.Helper()
	if p := fetchVersion(t, feed, "ds_a", number).PreviousVersion; p != nil {
		return *p
	}
	return 0
}

func newPlain(t *testing.T, options feedsim.Options) (*feedsim.Feed, *feedsim.Dataset) {
	t.Helper()
	feed := newFeed(t, options)
	return feed, addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Plain})
}

func TestNumbersSkipAndHeldVersionsNeverAppear(t *testing.T) {
	feed, dataset := newPlain(t, feedsim.Options{PageSize: 2})
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{SkipNumbers: 3})
	if held := dataset.Hold(); held != 6 {
		t.Errorf("held version %d, want 6", held)
	}
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{})
	wantList(t, listed(t, feed, "ds_a", "asc", 0), 1, 5, 7, 8)
	wantList(t, listed(t, feed, "ds_a", "desc", 0), 8, 7, 5, 1)
	wantList(t, listed(t, feed, "ds_a", "asc", 5), 7, 8)
	wantRefusal(t, feed, "ds_a", 6, http.StatusNotFound, "not_found", "never released")
	if got := previousOf(t, feed, 7); got != 5 {
		t.Errorf("version 7 follows %d, want 5", got)
	}
	first := fetchVersion(t, feed, "ds_a", 1)
	if first.PreviousVersion != nil || !first.ResyncRequired || first.SchemaVersion != "1.0" {
		t.Errorf("the first version: %+v", first)
	}
}

func TestSchemaVersions(t *testing.T) {
	feed, dataset := newPlain(t, feedsim.Options{})
	var got []string
	for _, spec := range []feedsim.ReleaseSpec{{}, {Minor: true}, {}, {PinKey: true}, {Major: true}, {Minor: true}, {Retype: true}} {
		v := fetchVersion(t, feed, "ds_a", release(t, dataset, spec))
		got = append(got, v.SchemaVersion)
		if major := spec.Major || spec.Retype || v.Version == 1; v.ResyncRequired != major {
			t.Errorf("version %d: resyncRequired is %v", v.Version, v.ResyncRequired)
		}
	}
	if want := []string{"1.0", "1.1", "1.1", "1.2", "2.0", "2.1", "3.0"}; !slices.Equal(got, want) {
		t.Errorf("schema versions %v, want %v", got, want)
	}
	_, body := call(t, feed, http.MethodGet, "/v1/feeds/datasets/ds_a/schemas", "")
	var all struct {
		Schemas []struct{ SchemaVersion string }
	}
	if err := json.Unmarshal(body, &all); err != nil || len(all.Schemas) != 6 {
		t.Errorf("%v: %d schemas in %s", err, len(all.Schemas), body)
	}
	status, old := call(t, feed, http.MethodGet, "/v1/feeds/datasets/ds_a/schema?version=3", "")
	file := download(t, fetchVersion(t, feed, "ds_a", 3).Files.Schema)
	if status != http.StatusOK || string(old) != string(file) {
		t.Errorf("schema of version 3 is %s, its file %s", old, file)
	}
}

func TestReleasedAgain(t *testing.T) {
	feed, dataset := newPlain(t, feedsim.Options{})
	for range 3 {
		release(t, dataset, feedsim.ReleaseSpec{})
	}
	if _, err := dataset.ReleaseRebuild(); err == nil {
		t.Error("a rebuild without a withdrawal was accepted")
	}
	if err := dataset.ReleaseAgain(3); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, feed, "ds_a", 3, http.StatusGone, "expired", "released again")
	if dataset.Current() != 2 {
		t.Errorf("current is %d, want 2", dataset.Current())
	}
	rebuilt, err := dataset.ReleaseRebuild()
	if err != nil {
		t.Fatal(err)
	}
	v := fetchVersion(t, feed, "ds_a", rebuilt)
	if !v.ResyncRequired || previousOf(t, feed, rebuilt) != 3 {
		t.Errorf("the rebuild: %+v", v)
	}
	next := release(t, dataset, feedsim.ReleaseSpec{})
	if v := fetchVersion(t, feed, "ds_a", next); v.ResyncRequired || previousOf(t, feed, next) != rebuilt {
		t.Errorf("after the rebuild: %+v", v)
	}
	wantList(t, listed(t, feed, "ds_a", "asc", 0), 1, 2, rebuilt, next)
	if err := dataset.ReleaseAgain(2); err != nil { // one in the middle of the chain
		t.Fatal(err)
	}
	newer := release(t, dataset, feedsim.ReleaseSpec{Change: 1}) // a newer release stands in for the rebuild
	if v := fetchVersion(t, feed, "ds_a", newer); !v.ResyncRequired || previousOf(t, feed, newer) != 2 {
		t.Errorf("the release that stands in: %+v", v)
	}
	if err := dataset.ReleaseAgain(99); err == nil {
		t.Error("withdrew a version that was never released")
	}
}

func TestRetention(t *testing.T) {
	feed, dataset := newPlain(t, feedsim.Options{})
	release(t, dataset, feedsim.ReleaseSpec{})                  // 1: a reload, not the last of its MAJOR
	release(t, dataset, feedsim.ReleaseSpec{})                  // 2: the last of MAJOR 1, has changes to apply
	release(t, dataset, feedsim.ReleaseSpec{Major: true})       // 3: the last of MAJOR 2, nothing to apply
	release(t, dataset, feedsim.ReleaseSpec{Retype: true})      // 4: MAJOR 3
	feed.Clock().Advance(50 * day)                              //
	release(t, dataset, feedsim.ReleaseSpec{HeldFor: 20 * day}) // 5: built on day 30, released on day 50
	feed.Clock().Advance(39 * day)
	wantList(t, listed(t, feed, "ds_a", "asc", 0), 1, 2, 3, 4, 5)
	for number := int64(1); number <= 5; number++ {
		fetchVersion(t, feed, "ds_a", number)
	}
	feed.Clock().Advance(day - 30*time.Minute)
	release(t, dataset, feedsim.ReleaseSpec{}) // 6
	links := fetchVersion(t, feed, "ds_a", 1).Files
	feed.Clock().Advance(30 * time.Minute)
	for _, gone := range []int64{1, 2, 4} {
		wantRefusal(t, feed, "ds_a", gone, http.StatusGone, "expired", "past retention")
	}
	fetchVersion(t, feed, "ds_a", 3) // day 90: kept, the last of its MAJOR without changes
	download(t, links.Snapshot[0])   // an issued link works until it expires
	feed.Clock().Advance(30 * day)   // day 120: version 5, built on day 30, goes before 90 days from its release
	wantRefusal(t, feed, "ds_a", 5, http.StatusGone, "expired", "past retention")
	feed.Clock().Advance(300 * day)
	if v := fetchVersion(t, feed, "ds_a", 6); len(v.Files.Changes) != 1 {
		t.Errorf("the newest version lost its changes: %+v", v.Files)
	}
	fetchVersion(t, feed, "ds_a", 3)
	late := release(t, dataset, feedsim.ReleaseSpec{})
	if v := fetchVersion(t, feed, "ds_a", late); !v.ResyncRequired {
		t.Error("a version after one past retention is no reload")
	}
}

func TestChangesLostToRetention(t *testing.T) {
	feed, dataset := newPlain(t, feedsim.Options{Assume: feedsim.Assume{KeptWithoutChanges: true}})
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{Major: true})
	feed.Clock().Advance(90 * day)
	v := fetchVersion(t, feed, "ds_a", 2)
	manifest := string(download(t, v.Files.Manifest))
	if len(v.Files.Changes) != 0 || !strings.Contains(manifest, "changes/part-0000.parquet") {
		t.Errorf("changes %v, manifest %s", v.Files.Changes, manifest)
	}
	_, body := call(t, feed, http.MethodPost, versionPath("ds_a", 2)+"/links", `{"files":["changes/part-0000.parquet","schema.json","manifest.json","no such"]}`)
	var links struct {
		Files   []entry
		Missing []string
	}
	if err := json.Unmarshal(body, &links); err != nil {
		t.Fatal(err)
	}
	if want := []string{"changes/part-0000.parquet", "manifest.json", "no such"}; !slices.Equal(links.Missing, want) || len(links.Files) != 1 {
		t.Errorf("links: %s", body)
	}
}

func TestUnsubscribedRemovedAndRebuilding(t *testing.T) {
	feed, dataset := newPlain(t, feedsim.Options{})
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{})
	link := fetchVersion(t, feed, "ds_a", 2).Files.Schema
	dataset.Unsubscribe()
	wantRefusal(t, feed, "ds_a", 2, http.StatusConflict, "not_subscribed", "subscription")
	download(t, link)
	dataset.Subscribe()
	dataset.Rebuilding(true)
	wantRefusal(t, feed, "ds_a", 2, http.StatusGone, "expired", "being rebuilt")
	fetchVersion(t, feed, "ds_a", 1)
	dataset.Rebuilding(false)
	fetchVersion(t, feed, "ds_a", 2)
	dataset.Remove()
	wantRefusal(t, feed, "ds_a", 2, http.StatusNotFound, "not_found", "no such dataset")
	if _, body := call(t, feed, http.MethodGet, "/v1/feeds/datasets", ""); strings.Contains(string(body), "ds_a") {
		t.Errorf("a removed dataset is listed: %s", body)
	}
	download(t, link)
	dataset.Restore()
	fetchVersion(t, feed, "ds_a", 2)
}

func TestListOfDatasets(t *testing.T) {
	feed := newFeed(t, feedsim.Options{PageSize: 2})
	for i := range 5 {
		dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: fmt.Sprintf("ds_%d", i), Character: feedsim.Plain, Rows: 3})
		if i != 4 { // the last one has no version
			release(t, dataset, feedsim.ReleaseSpec{})
		}
		feed.Clock().Advance(time.Hour)
	}
	list := func(query url.Values) []string {
		var ids []string
		for {
			status, body := call(t, feed, http.MethodGet, "/v1/feeds/datasets?"+query.Encode(), "")
			var page struct {
				Datasets   []struct{ ID string }
				NextCursor *string
			}
			if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK || len(page.Datasets) > 2 {
				t.Fatalf("%d %v %s", status, err, body)
			}
			for _, d := range page.Datasets {
				ids = append(ids, d.ID)
			}
			if page.NextCursor == nil {
				return ids
			}
			query.Set("cursor", *page.NextCursor)
		}
	}
	if got := list(url.Values{}); len(got) != 5 {
		t.Errorf("listed %v", got)
	}
	since := start.Add(2 * time.Hour).Format(time.RFC3339)
	if got := list(url.Values{"updatedSince": {since}}); !slices.Equal(got, []string{"ds_2", "ds_3"}) {
		t.Errorf("since %s: %v", since, got)
	}
	if err := feed.Dataset("ds_3").ReleaseAgain(1); err != nil {
		t.Fatal(err)
	}
	if got := list(url.Values{"updatedSince": {since}}); !slices.Equal(got, []string{"ds_2", "ds_3"}) {
		t.Errorf("a withdrawal moved the list: %v", got)
	}
	for _, query := range []string{"updatedSince=yesterday", "cursor=made+up"} {
		if status, _ := call(t, feed, http.MethodGet, "/v1/feeds/datasets?"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%s answered %d", query, status)
		}
	}
}
