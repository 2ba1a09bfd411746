package manifest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"feedmirror/manifest/jsonstream"
)

// documented is the version of versions-snapshots-and-changes.md, "The version chain".
const documented = `{
	"datasetId": "ds_orange_fl_building_permits",
	"version": 42,
	"previousVersion": 41,
	"schemaVersion": "2.1",
	"publishedAt": "2026-10-18T06:12:40.000Z",
	"sourceUrl": "https://...",
	"fetchedAt": "2026-10-18T06:01:12.000Z",
	"rowCount": 184220,
	"counts": { "added": 212, "changed": 38, "removed": 3 },
	"resyncRequired": false,
	"recordIdsChanged": false
}`

func documentedVersion() Version {
	fetched := time.Date(2026, 10, 18, 6, 1, 12, 0, time.UTC)
	return Version{
		Dataset: "ds_orange_fl_building_permits", Number: 42, Previous: 41, Schema: SchemaVersion{2, 1}, PublishedAt: time.Date(2026, 10, 18, 6, 12, 40, 0, time.UTC),
		SourceURL: "https://...", FetchedAt: &fetched, RowCount: 184220, Counts: &Counts{212, 38, 3},
	}
}

// replaced returns the documented version with one piece of its text replaced.
func replaced(t *testing.T, old, with string) []byte {
	t.Helper()
	if !strings.Contains(documented, old) {
		t.Fatalf("%s is not in the document", old)
	}
	return []byte(strings.Replace(documented, old, with, 1))
}

func TestDocumentedVersionAndItsAllowedVariations(t *testing.T) {
	for name, test := range map[string]struct {
		old, with string
		change    func(*Version)
	}{
		"as documented":               {`{`, `{`, func(*Version) {}},
		"unknown members":             {`{`, `{"files":{"snapshot":[1]},"more":null,"Version":"7",`, func(*Version) {}},
		"previous null":               {`"previousVersion": 41`, `"previousVersion": null`, func(v *Version) { v.Previous = 0 }},
		"previous zero":               {`"previousVersion": 41`, `"previousVersion": 0`, func(v *Version) { v.Previous = 0 }},
		"previous absent":             {`"previousVersion": 41,`, ``, func(v *Version) { v.Previous = 0 }},
		"counts null":                 {`{ "added": 212, "changed": 38, "removed": 3 }`, `null`, func(v *Version) { v.Counts = nil }},
		"counts absent":               {`"counts": { "added": 212, "changed": 38, "removed": 3 },`, ``, func(v *Version) { v.Counts = nil }},
		"counts in part":              {`"removed": 3`, `"removed": null`, func(v *Version) { v.Counts = nil }},
		"counts with more":            {`"removed": 3`, `"removed": 3, "kept": 5`, func(*Version) {}},
		"reload":                      {`"resyncRequired": false`, `"resyncRequired": true`, func(v *Version) { v.ResyncRequired = true }},
		"ids changed":                 {`"recordIdsChanged": false`, `"recordIdsChanged": true`, func(v *Version) { v.RecordIDsChanged = true }},
		"recordIdsChanged absent":     {",\n\t\"recordIdsChanged\": false", ``, func(*Version) {}},
		"source null":                 {`"https://..."`, `null`, func(v *Version) { v.SourceURL = "" }},
		"source of another kind":      {`"https://..."`, `{"href":"x"}`, func(v *Version) { v.SourceURL = "" }},
		"fetched null":                {`"2026-10-18T06:01:12.000Z"`, `null`, func(v *Version) { v.FetchedAt = nil }},
		"fetched no time":             {`"2026-10-18T06:01:12.000Z"`, `"yesterday"`, func(v *Version) { v.FetchedAt = nil }},
		"published in a zone":         {`"2026-10-18T06:12:40.000Z"`, `"2026-10-18T08:12:40+02:00"`, func(*Version) {}},
		"publishedAt without decimal": {`"2026-10-18T06:12:40.000Z"`, `"2026-10-18T06:12:40Z"`, func(*Version) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := documentedVersion()
			test.change(&want)
			got, err := DecodeVersion(replaced(t, test.old, test.with))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestVersionsThatCannotBeUsed(t *testing.T) {
	for name, test := range map[string]struct{ old, with, want string }{
		"no dataset":              {`"ds_orange_fl_building_permits"`, `null`, "no datasetId"},
		"dataset with dots":       {`"ds_orange_fl_building_permits"`, `"../x"`, "dataset id"},
		"dataset as a number":     {`"ds_orange_fl_building_permits"`, `7`, "datasetId: want a string, got a number"},
		"no version":              {`"version": 42,`, ``, "no version"},
		"version as a string":     {`"version": 42`, `"version": "42"`, "version: want a number, got a string"},
		"version zero":            {`"version": 42`, `"version": 0`, "version number 0"},
		"version negative":        {`"version": 42`, `"version": -42`, "-42"},
		"version with exponent":   {`"version": 42`, `"version": 4.2e1`, "4.2e1"},
		"version too great":       {`"version": 42`, `"version": 10000000000`, "10000000000"},
		"version twice":           {`"version": 42`, `"version": 42, "version": 43`, "version stands twice"},
		"previous not lower":      {`"previousVersion": 41`, `"previousVersion": 42`, "version 42: previousVersion 42 is not lower"},
		"previous negative":       {`"previousVersion": 41`, `"previousVersion": -1`, "previousVersion: "},
		"previous as a string":    {`"previousVersion": 41`, `"previousVersion": "41"`, "version 42: previousVersion: "},
		"schema version":          {`"2.1"`, `"2"`, `want MAJOR.MINOR, got "2"`},
		"no schema version":       {`"2.1"`, `null`, "no schemaVersion"},
		"published no time":       {`"2026-10-18T06:12:40.000Z"`, `"now"`, `want an RFC 3339 time, got "now"`},
		"published beyond years":  {`"2026-10-18T06:12:40.000Z"`, `"9999-12-31T23:59:59-01:00"`, "RFC 3339"},
		"published null":          {`"2026-10-18T06:12:40.000Z"`, `null`, "no publishedAt"},
		"no row count":            {`"rowCount": 184220,`, ``, "no rowCount"},
		"row count negative":      {`184220`, `-1`, "rowCount: "},
		"counts negative":         {`212`, `-212`, "counts: added: "},
		"counts as a list":        {`{ "added": 212, "changed": 38, "removed": 3 }`, `[]`, "counts: want an object"},
		"counts with one twice":   {`"added": 212`, `"added": 212, "added": 213`, "added stands twice"},
		"no resyncRequired":       {`"resyncRequired": false,`, ``, "no resyncRequired"},
		"resyncRequired a string": {`"resyncRequired": false`, `"resyncRequired": "false"`, "want true or false"},
		"trailing data":           {documented, documented + "x", "trailing data"},
		"HTML":                    {documented, "<html>", "HTML"},
		"truncated":               {documented, documented[:200], "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeVersion(replaced(t, test.old, test.with))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
}

func TestVersionFieldsReadBesideFiles(t *testing.T) {
	var fields VersionFields
	var entries []string
	in := jsonstream.New(strings.NewReader(strings.Replace(documented, "{", `{"files":{"schema":`+entry("file", "schema.json")+`},`, 1)))
	err := in.Object(func(name string) error {
		if known, err := fields.Read(in, name); known || err != nil {
			return err
		}
		return in.Object(func(string) error {
			e, err := ReadEntry(in)
			entries = append(entries, e.Name())
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := fields.Version()
	if err != nil || !reflect.DeepEqual(got, documentedVersion()) {
		t.Errorf("got %+v, %v", got, err)
	}
	if !reflect.DeepEqual(entries, []string{"schema.json"}) {
		t.Errorf("got entries %q", entries)
	}
}

func TestDocumentedEntryIsReadInFull(t *testing.T) {
	// The entry of versions-snapshots-and-changes.md, "Attachments", with its checksum in full.
	text := `{"file": "source:zoning-ordinance", "filename": "Zoning Ordinance.pdf", "contentType": "application/pdf",
		"sizeBytes": 1843204, "sha256": "` + sumB + `", "url": "https://…", "expiresAt": "2026-10-18T07:12:40Z"}`
	got, err := ReadEntry(jsonstream.New(strings.NewReader(text)))
	want := Entry{File: "source:zoning-ordinance", Filename: "Zoning Ordinance.pdf", ContentType: "application/pdf", Size: 1843204, SHA256: sum(t, sumB),
		URL: "https://…", ExpiresAt: "2026-10-18T07:12:40Z"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if !got.IsAttachment() || got.IsEmpty() {
		t.Error("an attachment's entry is not seen as one")
	}
	bare, err := ReadEntry(jsonstream.New(strings.NewReader(`{"columns":[]}`)))
	if err != nil || !bare.IsEmpty() || bare.Size != -1 {
		t.Errorf("got %+v, %v", bare, err)
	}
}
