package tables

import (
	"strings"
	"testing"
)

func script(t *testing.T, d DDL) string {
	t.Helper()
	var text strings.Builder
	if err := d.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// Views and tables of ClickHouse show null where a column that they were made with has got another type.
func TestClickHouseGetsNoViews(t *testing.T) {
	for name, test := range map[string]struct {
		place Place
		want  []string
	}{
		"AWS": {Place{Scheme: "s3", Bucket: "b", Prefix: "p/", Region: "eu-west-1"},
			[]string{"ploti_changes AS url = 'https://s3.eu-west-1.amazonaws.com/b/p/changes/', use_environment_credentials = 1;"}},
		"AWS, no region": {Place{Scheme: "s3", Bucket: "b"}, []string{"url = 'https://s3.amazonaws.com/b/changes/'"}},
		"another service": {Place{Scheme: "s3", Bucket: "b", Endpoint: "http://localhost:9000", Region: "home"},
			[]string{"url = 'http://localhost:9000/b/changes/'", "-- <clickhouse><s3><ploti><endpoint>http://localhost:9000/b/</endpoint><region>home</region></ploti></s3></clickhouse>"}},
		"GCS": {Place{Scheme: "gs", Bucket: "b", Prefix: "p/"}, []string{"url = 'https://storage.googleapis.com/b/p/changes/'", "Not executed"}},
		"Azure": {Place{Scheme: "azblob", Bucket: "c", Prefix: "p/", Account: "a"},
			[]string{"storage_account_url = 'https://a.blob.core.windows.net', container = 'c', blob_path = 'p/changes/'", "deltaLakeAzure(", "Not executed"}},
		"a folder": {Place{Scheme: "file", Prefix: "/srv/feeds/"}, []string{"path = '/srv/feeds/changes/'", "deltaLakeLocal(", "Not executed"}},
	} {
		got := script(t, DDL{Engine: ClickHouse, Place: test.place})
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: nothing says %q:\n%s", name, want, got)
			}
		}
		if strings.Contains(got, "CREATE VIEW") || strings.Contains(got, "CREATE OR REPLACE") || strings.Contains(got, "CREATE TABLE") {
			t.Errorf("%s: a view or a table:\n%s", name, got)
		}
	}
}

// Polars' own reader takes partitions from paths, and text that is annotated as JSON for bytes.
func TestPolarsReadsByPyarrowWhereItsOwnReaderDoesNotRead(t *testing.T) {
	shape := func(annotated bool) []Major {
		return []Major{{Number: 1, Columns: []Column{{Name: "a", Type: Type{Name: typeString}, Annotated: annotated}}}}
	}
	got := script(t, DDL{Engine: Polars, Place: Place{Scheme: "file", Prefix: "/srv/"}, Datasets: []Described{{Dataset: "ds_text", Majors: shape(false)}, {Dataset: "ds_json", Majors: shape(true)}}})
	for table, pyarrow := range map[string]bool{"changes": true, "publications": false, "ds_text": false, "ds_json": true} {
		_, rest, found := strings.Cut(got, "\n"+table+" = ")
		line, _, _ := strings.Cut(rest, "\n")
		if !found || strings.Contains(line, "use_pyarrow=True") != pyarrow {
			t.Errorf("%s, by pyarrow %t: %s", table, pyarrow, line)
		}
	}
}
