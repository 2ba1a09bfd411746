package feedsim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// portrait asks a feed everything that a switch can change and returns the answers as one text, without what differs
// between two runs of the same feed: ports and signatures.
func portrait(t *testing.T, assume feedsim.Assume) string {
	t.Helper()
	feed := newFeed(t, feedsim.Options{Seed: 7, PageSize: 2, LinkLifetime: time.Hour, Assume: assume})
	var out strings.Builder
	show := func(method, path, body string) {
		request := newRequest(t, feed.URL()+path)
		request.Method, request.Body = method, io.NopCloser(strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+feed.Key())
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s %s %q\n%s\n", method, path, response.Status, response.Header.Get("Retry-After"), answer)
	}
	zones := addThree(t, feed)
	const root = "/v1/feeds/datasets"
	show("GET", root, "")
	show("GET", root+"/ds_b", "")
	show("GET", root+"/ds_c", "")
	show("GET", root+"/ds_c/versions?order=asc", "")
	show("GET", root+"/ds_a/schema?version=3", "")
	show("GET", root+"/ds_b/schema?version=1", "")
	zones.Subscribe()
	show("GET", root+"/ds_c/schema?version=1", "")
	show("GET", root+"/ds_c/versions?order=asc", "")
	show("GET", root+"/ds_b/versions/1", "")
	show("GET", root+"/ds_a/versions/4", "")
	show("POST", root+"/ds_a/versions/4/links", `{"files":["manifest.json","schema.json","snapshot/part-0000.parquet"]}`)
	show("POST", root+"/ds_a/versions/4/links", `{"files":["schema.json"]}`)
	show("GET", root+"/ds_none", "")
	show("GET", root+"/ds_b/versions?order=asc&after=3", "")
	_, body := call(t, feed, "GET", versionPath("ds_b", 5), "")
	fetch := func(address string) []byte {
		response, data, err := get(t, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n%s\n", response.Status, data)
		return data
	}
	fetch(linkTo(t, body, "snapshot%2Fpart%2D0000%2Eparquet"))
	manifest := linkTo(t, body, "manifest%2Ejson")
	if data := fetch(manifest); !json.Valid(data) {
		t.Errorf("the manifest is not JSON: %s", data)
	}
	fetch(feed.URL() + root)
	feed.Clock().Advance(time.Hour)
	fetch(manifest)
	feed.Clock().Advance(100 * day)
	show("GET", root+"/ds_b/versions?order=asc", "")
	show("GET", root+"/ds_b/versions/2", "")
	volatile := regexp.MustCompile(`127\.0\.0\.1:\d+|X-Feed-Signature=[0-9a-f]+`)
	return volatile.ReplaceAllString(out.String(), "*")
}

// addThree adds three datasets with five versions each and returns the last, unsubscribed and with one withdrawn.
func addThree(t *testing.T, feed *feedsim.Feed) *feedsim.Dataset {
	t.Helper()
	datasets := []*feedsim.Dataset{
		addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Points, Rows: 6}),
		addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_b", Place: "us", Character: feedsim.Plain, Rows: 6}),
		addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_c", Character: feedsim.Polygons, Rows: 6}),
	}
	for _, spec := range []feedsim.ReleaseSpec{{}, {Change: 2}, {Major: true}, {ReplaceIDs: true}, {Empty: true}} {
		for _, dataset := range datasets {
			release(t, dataset, spec)
		}
	}
	if err := datasets[2].ReleaseAgain(2); err != nil {
		t.Fatal(err)
	}
	datasets[2].Unsubscribe()
	return datasets[2]
}

// linkTo finds the link to a file in an answer of any shape.
func linkTo(t *testing.T, answer []byte, escaped string) string {
	t.Helper()
	found := regexp.MustCompile(`"url":"([^"]*` + escaped + `[^"]*)"`).FindSubmatch(answer)
	if found == nil {
		t.Fatalf("no link to %s in %s", escaped, answer)
	}
	return string(found[1])
}

// Each alternative changes what a client sees, in its own way, and nothing breaks under it.
func TestEveryAlternativeShows(t *testing.T) {
	seen := map[string]string{portrait(t, feedsim.Assume{}): "the default"}
	names := map[string]bool{}
	for _, alternative := range feedsim.Alternatives() {
		t.Run(alternative.Name, func(t *testing.T) {
			if names[alternative.Name] {
				t.Error("the name is taken")
			}
			names[alternative.Name] = true
			var assume feedsim.Assume
			alternative.Apply(&assume)
			got := portrait(t, assume)
			if other, ok := seen[got]; ok {
				t.Errorf("shows the same as %s", other)
			}
			seen[got] = alternative.Name
		})
	}
}
