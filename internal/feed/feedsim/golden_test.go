package feedsim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim/records"
)

var documentTime = time.Date(2026, 10, 18, 6, 12, 40, 0, time.UTC)

const orange = "ds_orange_fl_building_permits"

func document(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "documents", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// compact removes white space and keeps the order of members.
func compact(t *testing.T, data []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func keys(v any) []string {
	var names []string
	for name := range v.(map[string]any) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func startGolden(t *testing.T) *Feed {
	t.Helper()
	feed, err := Start(Options{Seed: 42, Clock: NewClock(documentTime)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := feed.Close(); err != nil {
			t.Error(err)
		}
	})
	return feed
}

func ask(t *testing.T, feed *Feed, method, path string, body []byte) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, feed.URL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+feed.Key())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %v %s", method, path, response.StatusCode, err, data)
	}
	return data
}

// releaseDocumented makes version 42 of the documents' example dataset: its numbers, its counts, its schema version.
func releaseDocumented(t *testing.T, feed *Feed) {
	t.Helper()
	dataset, err := feed.AddDataset(DatasetSpec{ID: orange, Place: "fl-county-orange", Character: Points, Rows: 300})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 300 + 212 - 3
	for _, spec := range []ReleaseSpec{
		{},
		{Major: true},
		{Minor: true, SkipNumbers: 38},
		{Add: 212, Change: 38, Remove: 3, RowCountOff: 184220 - rows},
	} {
		if _, err := dataset.Release(spec); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVersionsListAsDocumented(t *testing.T) {
	feed := startGolden(t)
	releaseDocumented(t, feed)
	got := ask(t, feed, http.MethodGet, apiRoot+"/"+orange+"/versions?after=41&order=asc", nil)
	url := "https://gis.example.gov/export/" + orange + "?where=1%3D1&f=geojson"
	ours := strings.Replace(string(got), url, "https://...", 1)
	if want := compact(t, document(t, "versions-list")); ours != want {
		t.Errorf("got  %s\nwant %s", ours, want)
	}
}

func TestAttachmentEntryAsDocumented(t *testing.T) {
	feed := startGolden(t)
	dataset, err := feed.AddDataset(DatasetSpec{ID: "ds_zoning", Character: Polygons})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Release(ReleaseSpec{}); err != nil {
		t.Fatal(err)
	}
	answer := decode(t, ask(t, feed, http.MethodGet, apiRoot+"/ds_zoning/versions/1", nil)).(map[string]any)
	entry := answer["files"].(map[string]any)["attachments"].([]any)[0].(map[string]any)
	want := decode(t, document(t, "attachment-entry")).(map[string]any)
	if !slices.Equal(keys(entry), keys(want)) {
		t.Errorf("members %v, want %v", keys(entry), keys(want))
	}
	for _, name := range []string{"file", "filename", "contentType"} {
		if entry[name] != want[name] {
			t.Errorf("%s is %v, want %v", name, entry[name], want[name])
		}
	}
	for name := range want {
		if reflect.TypeOf(entry[name]) != reflect.TypeOf(want[name]) {
			t.Errorf("%s is a %T, want %T", name, entry[name], want[name])
		}
	}

	links := decode(t, ask(t, feed, http.MethodPost, apiRoot+"/ds_zoning/versions/1/links", document(t, "links-request")))
	if got := keys(links); !slices.Equal(got, []string{"expiresAt", "files", "missing"}) {
		t.Errorf("a links answer has %v", got)
	}
	var names []any
	for _, e := range links.(map[string]any)["files"].([]any) {
		names = append(names, e.(map[string]any)["file"])
		if !slices.Equal(keys(e), keys(want)) {
			t.Errorf("a links entry has %v, want %v", keys(e), keys(want))
		}
	}
	asked := decode(t, document(t, "links-request")).(map[string]any)["files"]
	if !reflect.DeepEqual(any(names), asked) {
		t.Errorf("links for %v, asked for %v", names, asked)
	}
}

// documentedColumns are the columns of the documents' example schema.
func documentedColumns() []records.Column {
	return []records.Column{
		{Name: "permit_number", Type: records.String},
		{Name: "issued_date", Type: records.Date},
		{Name: "valuation", Type: records.Decimal, Precision: &records.Precision{Precision: 12, Scale: 2}},
		{Name: "contractor_name", Type: records.String},
		{Name: "geometry", Type: records.Geometry, Geometry: &records.GeometryType{Type: "Point", SRID: 4326}},
	}
}

func TestSchemaAsDocumented(t *testing.T) {
	feed := startGolden(t)
	after := records.Schema{Columns: documentedColumns(), Key: []string{"permit_number"}}
	before := after.Clone()
	before.Columns = slices.Delete(before.Columns, 3, 4)
	resource := schemaResource{
		number: numbering{2, 1}, firstVersion: 39, schema: after, previous: &numbering{2, 0},
		change: records.CompareSchemas(before, after),
	}
	got, err := jsonBytes(feed.schemaObject(orange, resource))
	if err != nil {
		t.Fatal(err)
	}
	if want := compact(t, document(t, "schema")); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	early := decode(t, document(t, "early-access-schema"))
	if got := keys(decode(t, got)); !slices.Equal(got, keys(early)) {
		t.Errorf("members %v, the older document has %v", got, keys(early))
	}
}

// The older document shows a breaking change inside an event. Events are not simulated; the change has the same members
// in a schema resource.
func TestBreakingChangeAsDocumented(t *testing.T) {
	feed := startGolden(t)
	before := records.Schema{Columns: documentedColumns(), Key: []string{"permit_number"}}
	after := before.Clone()
	before.Columns[1].Type = records.String
	after.Columns = slices.Delete(after.Columns, 2, 3)
	change := records.CompareSchemas(before, after)
	resource := schemaResource{
		number: numbering{3, 0}, previous: &numbering{2, 1}, change: change, breaking: change.Breaking(before.Key),
	}
	data, err := jsonBytes(feed.changeObject(resource))
	if err != nil {
		t.Fatal(err)
	}
	got := decode(t, data).(map[string]any)
	event := decode(t, document(t, "early-access-event")).(map[string]any)
	want := event["data"].(map[string]any)["schemaChange"].(map[string]any)
	if !slices.Equal(keys(got), keys(want)) {
		t.Errorf("members %v, want %v", keys(got), keys(want))
	}
	for _, name := range []string{"kind", "previousSchemaVersion", "added", "removed", "keyColumnsChanged"} {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s is %v, want %v", name, got[name], want[name])
		}
	}
	// The current document says that from and to carry items, precision and geometry, null where the type has none.
	retyped := got["retyped"].([]any)[0].(map[string]any)
	for _, side := range []string{"from", "to"} {
		if members := keys(retyped[side]); !slices.Equal(members, []string{"geometry", "items", "precision", "type"}) {
			t.Errorf("%s carries %v", side, members)
		}
	}
}
