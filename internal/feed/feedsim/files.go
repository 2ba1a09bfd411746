package feedsim

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"feedmirror/internal/feed/feedsim/records"
)

func (v *version) envelope() records.Envelope {
	envelope := records.Envelope{
		Dataset: v.dataset.spec.ID, Version: v.number, SourceURL: v.sourceURL, FetchedAt: v.fetchedAt,
	}
	if v.dataset.spec.Place != "" {
		envelope.Place = &v.dataset.spec.Place
	}
	return envelope
}

// parts cuts n items into parts of about the same size. There is always at least one.
func cut[T any](items []T, n int) [][]T {
	parts := make([][]T, n)
	for i := range parts {
		parts[i] = items[len(items)*i/n : len(items)*(i+1)/n]
	}
	return parts
}

func partName(folder string, i int) string { return fmt.Sprintf("%s/part-%04d.parquet", folder, i) }

func (d *Dataset) writeSnapshot(v *version, schema records.Schema, c Contents, spec ReleaseSpec) error {
	lastChange := d.feed.options.Assume.RowVersionIsLastChange
	parts := cut(c.Snapshot, cmp.Or(spec.Parts, d.spec.Parts))
	for i, rows := range parts {
		schema := schema
		if spec.MixedParts && i == len(parts)-1 {
			odd := records.Table{Schema: schema, Rows: rows}.Clone()
			if err := (&records.Maker{}).RetypeColumn(&odd); err != nil {
				return fmt.Errorf("mix parts: %w", err)
			}
			schema, rows = odd.Schema, odd.Rows
		}
		var out bytes.Buffer
		if err := records.WriteSnapshot(&out, schema, c.Envelope, rows, lastChange); err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
		data := out.Bytes()
		if spec.BrokenFooter && i == 0 {
			copy(data[len(data)-8:], "rubbish!")
		}
		v.files = append(v.files, spec.part(kindSnapshot, partName("snapshot", i), data))
	}
	return nil
}

// writeChanges writes the changes files; a version without any change has none.
func (d *Dataset) writeChanges(v *version, schema records.Schema, c Contents, spec ReleaseSpec) error {
	if len(c.Changes) == 0 {
		return nil
	}
	for i, part := range cut(c.Changes, cmp.Or(spec.ChangeParts, 1)) {
		var out bytes.Buffer
		if err := records.WriteChanges(&out, schema, c.Envelope, part); err != nil {
			return fmt.Errorf("write changes: %w", err)
		}
		v.files = append(v.files, spec.part(kindChanges, partName("changes", i), out.Bytes()))
	}
	return nil
}

// attach returns the version's attachments: archived sources, the original and the documents that rows name.
func (d *Dataset) attach(maker *records.Maker, table records.Table, spec ReleaseSpec, first bool) fileSlice {
	for i, document := range maker.Documents {
		content := document.Data
		if first && i == 0 {
			// The feed's record of this document is older than its bytes: the name's hash is not theirs.
			content = append(slices.Clone(content), "% scanned again\n"...)
		}
		d.known[document.Name] = file{
			kind: kindAttachment, name: document.Name, filename: document.Filename,
			contentType: document.ContentType, blob: newBytesBlob(content),
		}
	}
	if first {
		d.archive(maker.Documents)
	}
	if spec.ChangeSource {
		d.changeSource(maker.Version)
	}
	var set fileSlice
	names := append(archivedNames(d.spec.Character), table.Documents()...)
	for _, name := range names {
		if f, ok := d.known[name]; ok && !slices.Contains(spec.LeaveOut, name) {
			set = append(set, f)
		}
	}
	return set
}

// archivedNames returns the attachments of a character that no row names, in the order they are listed.
func archivedNames(character Character) []string {
	switch character {
	case Points:
		return []string{"source:permit-index"}
	case Polygons:
		return []string{"source:zoning-ordinance", "original"}
	case Archive:
		return []string{"source:route-log", "source:survey", "source:empty-notice", "original"}
	}
	return nil
}

// archive makes the archived files of a dataset. Some hold the same bytes under two names, and one is empty.
func (d *Dataset) archive(documents []records.Document) {
	keep := func(name, filename, contentType string, data []byte) {
		d.known[name] = file{
			kind: kindAttachment, name: name, filename: filename, contentType: contentType, blob: newBytesBlob(data),
		}
	}
	const pdf = "application/pdf"
	original := records.PDF("Original of "+d.spec.ID, d.spec.DocumentBytes)
	switch d.spec.Character {
	case Points:
		index := records.PDF("Permit index", 0)
		if len(documents) > 1 {
			index = documents[1].Data
		}
		keep("source:permit-index", "Permit index (copy).bin", "application/octet-stream", index)
	case Polygons:
		keep("source:zoning-ordinance", "Zoning Ordinance.pdf", pdf, records.PDF("Zoning Ordinance", 4000))
		keep("original", "Zoning map ✓.pdf", pdf, original)
	case Archive:
		keep("source:route-log", `route "log", v1.csv`, "text/csv; charset=utf-8", []byte("route,event\nK-1,opened\n"))
		keep("source:survey", "survey.pdf", pdf, original)
		keep("source:empty-notice", "notice.txt", "text/plain", nil)
		keep("original", "Original.pdf", pdf, original)
	}
}

// changeSource gives the first archived file other bytes.
func (d *Dataset) changeSource(number int64) {
	names := archivedNames(d.spec.Character)
	if len(names) == 0 {
		return
	}
	f := d.known[names[0]]
	f.blob = newBytesBlob(fmt.Appendf(nil, "%s as read for version %d\n", f.name, number))
	d.known[names[0]] = f
}
