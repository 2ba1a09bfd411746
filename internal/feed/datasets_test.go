package feed_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
)

func collect(t *testing.T, a *api, since time.Time, change ...func(*feed.Options)) ([]feed.Dataset, feed.Listing, error) {
	t.Helper()
	var got []feed.Dataset
	listing, err := a.client(t, change...).Datasets(t.Context(), since, func(d feed.Dataset) error {
		got = append(got, d)
		return nil
	})
	return got, listing, err
}

func TestDatasetsWalksAllPages(t *testing.T) {
	date := "Sun, 18 Oct 2026 06:20:00 GMT"
	a := serve(t,
		say(200, `{"datasets":[`+item("ds_a", 3)+`,{"datasetId":"ds_b","current":null,"publishedAt":"2026-10-18T06:12:40.5Z"}],"nextCursor":"a/b+c="}`, "Date", date),
		say(200, `{"nextCursor":null,"datasets":[{"id":"ds_c","current":{"version":9,"publishedAt":"2026-10-18T06:00:00Z"}}]}`, "Date", "Sun, 18 Oct 2026 07:00:00 GMT"))
	since := time.Date(2026, 10, 18, 8, 0, 0, 999, time.FixedZone("", 7200))
	got, listing, err := collect(t, a, since)
	if err != nil {
		t.Fatal(err)
	}
	half := time.Date(2026, 10, 18, 6, 12, 40, 500_000_000, time.UTC)
	want := []feed.Dataset{{ID: "ds_a", Current: 3}, {ID: "ds_b", PublishedAt: half},
		{ID: "ds_c", Current: 9, PublishedAt: time.Date(2026, 10, 18, 6, 0, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if listing.Items != 3 || !listing.Greatest.Equal(half) || listing.Date.Format(http.TimeFormat) != date {
		t.Errorf("listing is %+v", listing)
	}
	targets := []string{
		"/v1/feeds/datasets?updatedSince=2026-10-18T06%3A00%3A00Z",
		"/v1/feeds/datasets?cursor=a%2Fb%2Bc%3D&updatedSince=2026-10-18T06%3A00%3A00Z",
	}
	for i, one := range a.seen() {
		if one.target != targets[i] {
			t.Errorf("asked for %s, want %s", one.target, targets[i])
		}
	}
}

func TestDatasetsGoesOnAfterBadItems(t *testing.T) {
	bad := []string{`{"id":"../x"}`, `{"id":7}`, `{}`, `7`, `null`, `{"id":"ds_b","current":{"version":0}}`,
		`{"id":"ds_b","current":{}}`, `{"id":"ds_b","current":12}`, `{"id":"a","datasetId":"b"}`, `{"id":"ds_b","current":{"version":1e3}}`}
	a := serve(t, say(200, `{"datasets":[`+item("ds_a", 3)+","+strings.Join(bad, ",")+","+item("ds_z", 4)+`]}`))
	got, listing, err := collect(t, a, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[1].ID != "ds_z" || listing.Items != 2 || len(listing.Bad) != len(bad) {
		t.Fatalf("visited %v, %d bad: %v", got, len(listing.Bad), listing.Bad)
	}
	for _, err := range listing.Bad {
		wantKind(t, err, fault.Malformed)
	}
}

func TestEmptyListIsOneAndAMissingListIsNone(t *testing.T) {
	for _, body := range []string{`{"datasets":[]}`, `{"datasets":null}`, `{"datasets":[],"nextCursor":""}`} {
		if got, _, err := collect(t, serve(t, say(200, body)), time.Time{}); err != nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v", body, got, err)
		}
	}
	for _, body := range []string{`{}`, `[]`, `null`, `{"datasets":{}}`, `{"datasets":"none"}`, `{"datasets":[],"datasets":[]}`,
		`{"datasets":[],"nextCursor":true}`, `{"datasets":[]}x`, `{"datasets":[],"nextCursor":"` + strings.Repeat("c", 5000) + `"}`} {
		_, _, err := collect(t, serve(t, say(200, body)), time.Time{})
		wantKind(t, err, fault.Malformed, "list datasets (feed)")
	}
}

func TestListThatNeverEndsIsRefused(t *testing.T) {
	circle := []answer{say(200, `{"datasets":[],"nextCursor":"a"}`), say(200, `{"datasets":[],"nextCursor":"b"}`), say(200, `{"datasets":[],"nextCursor":"a"}`)}
	_, _, err := collect(t, serve(t, circle...), time.Time{})
	wantKind(t, err, fault.Malformed, "circle")

	page := 0
	endless := serve(t, func(w http.ResponseWriter) {
		page++
		say(200, fmt.Sprintf(`{"datasets":[],"nextCursor":%d}`, page))(w)
	})
	_, _, err = collect(t, endless, time.Time{}, func(o *feed.Options) { o.Limits.Pages = 10 })
	wantKind(t, err, fault.Malformed, "10 pages")
	if n := len(endless.seen()); n != 10 {
		t.Errorf("sent %d requests, want 10", n)
	}
}

func TestPageOfCountlessItemsIsRefused(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter) {
		say(200, `{"datasets":[{}`)(w)
		_, _ = io.WriteString(w, strings.Repeat(",{}", 200_000)+"]}")
	})
	_, _, err := collect(t, a, time.Time{})
	wantKind(t, err, fault.Malformed, "more than 100000 items")
}

func TestVisitorsErrorEndsTheWalk(t *testing.T) {
	own := errors.New("own")
	a := serve(t, say(200, `{"datasets":[`+item("ds_a", 1)+","+item("ds_b", 1)+`],"nextCursor":"x"}`))
	_, err := a.client(t).Datasets(t.Context(), time.Time{}, func(feed.Dataset) error { return own })
	if !errors.Is(err, own) || fault.KindOf(err) != "" || len(a.seen()) != 1 {
		t.Errorf("got %v after %d requests", err, len(a.seen()))
	}
}

func TestBrokenPageIsVisitedOnce(t *testing.T) {
	a := serve(t, cut(`{"datasets":[`+item("ds_a", 1)), say(200, `{"datasets":[`+item("ds_a", 1)+`]}`))
	got, listing, err := collect(t, a, time.Time{})
	if err != nil || len(got) != 1 || listing.Items != 1 {
		t.Errorf("got %v, %+v, %v", got, listing, err)
	}
}
