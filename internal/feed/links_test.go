package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/internal/fault"
)

func TestLinksAsksOnceAndReturnsAllNames(t *testing.T) {
	date := "Sun, 18 Oct 2026 06:20:00 GMT"
	late := `{"expiresAt":"2026-10-18T07:00:00Z",` + entry("original")[1:]
	part := `{"path":"snapshot/part-0000.parquet","file":"part-0000","expiresAt":"2026-10-18T06:40:00Z",` + entry("x")[12:]
	for name, c := range map[string]struct {
		body string
		want time.Duration
	}{
		"expiry on top":        {`{"files":[` + entry("original") + "," + entry("snapshot/part-0000.parquet") + `],"missing":["source:a b"],"expiresAt":"2026-10-18T07:20:00Z"}`, time.Hour},
		"expiry on an entry":   {`{"missing":["source:a b"],"files":[` + late + "," + part + `],"expiresAt":"2026-10-18T07:20:00Z"}`, 20 * time.Minute},
		"no expiry":            {`{"missing":["source:a b"],"files":[` + entry("original") + "," + entry("snapshot/part-0000.parquet") + `]}`, 0},
		"expired when it came": {`{"files":[` + entry("original") + "," + entry("snapshot/part-0000.parquet") + `],"missing":["source:a b"],"expiresAt":"2026-10-18T05:20:00Z"}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(200, c.body, "Date", date))
			got, err := a.client(t).Links(t.Context(), "ds_a", 42, []string{"original", "snapshot/part-0000.parquet", "source:a b"})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Entries) != 2 || got.Entries[0].Name != "original" || got.Entries[1].Name != "snapshot/part-0000.parquet" ||
				cmp.Diff([]string{"source:a b"}, got.Missing) != "" || got.Lifetime != c.want {
				t.Errorf("got %+v", got)
			}
			want := request{"POST", "/v1/feeds/datasets/ds_a/versions/42/links", "Bearer " + testKey, `{"files":["original","snapshot/part-0000.parquet","source:a b"]}`}
			if seen := a.seen(); len(seen) != 1 || seen[0] != want {
				t.Errorf("sent %+v", seen)
			}
			if a.counts.Links.Load() != 1 || a.counts.Feed.Load() != 0 {
				t.Error("the call was not counted as one for links")
			}
		})
	}
}

func TestLinksRefusesAnswersToOtherQuestions(t *testing.T) {
	cases := []struct{ name, body, want string }{
		{"not asked for", `{"files":[` + entry("original") + "," + entry("a") + "," + entry("b") + `]}`, `"b", which was not asked for`},
		{"missing not asked for", `{"files":[` + entry("original") + "," + entry("a") + `],"missing":["b"]}`, `"b", which was not asked for`},
		{"twice", `{"files":[` + entry("original") + "," + entry("original") + `]}`, `"original" twice`},
		{"linked and missing", `{"files":[` + entry("original") + "," + entry("a") + `],"missing":["a"]}`, `"a" twice`},
		{"missing twice", `{"files":[` + entry("original") + `],"missing":["a","a"]}`, `"a" twice`},
		{"says too little", `{"files":[` + entry("original") + `]}`, `nothing of 1 of the 2 names asked for, such as "a"`},
		{"says nothing", `{}`, "nothing of 2 of the 2"},
		{"no link", `{"files":[` + entry("original") + `,{"file":"a","sizeBytes":1,"sha256":"` + testSum + `"}]}`, `"a" has no url`},
		{"no hash", `{"files":[` + entry("original") + `,{"file":"a","sizeBytes":1,"url":"https://h/?s=S3CRET"}]}`, `"a" has no sha256`},
		{"no size", `{"files":[` + entry("original") + `,{"file":"a","sha256":"` + testSum + `","url":"https://h/?s=S3CRET"}]}`, `"a" has no sizeBytes`},
		{"list of names", `{"files":["original","a"]}`, "want an object"},
		{"trailing data", `{"files":[` + entry("original") + "," + entry("a") + `]}{}`, "trailing data"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := serve(t, say(200, c.body))
			_, err := a.client(t).Links(t.Context(), "ds_a", 42, []string{"original", "a"})
			wantKind(t, err, fault.Malformed, "sign links ds_a version 42 (feed)", c.want)
		})
	}
}

func TestLinksTakesOneTo200DifferentNames(t *testing.T) {
	var names []string
	for i := range 201 {
		names = append(names, fmt.Sprintf("source:%d", i))
	}
	a := serve(t, say(200, `{}`))
	for _, bad := range [][]string{nil, names, {"a", "a"}} {
		_, err := a.client(t).Links(t.Context(), "ds_a", 42, bad)
		wantKind(t, err, fault.Internal)
	}
	if n := len(a.seen()); n != 0 {
		t.Errorf("sent %d requests", n)
	}
}
