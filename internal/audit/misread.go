package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/parquetinfo"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
)

// visible reports whether engines that read a folder by its names look at a file: they pass over what
// begins with "_" or "." below the table.
func visible(key string) bool {
	_, below, _ := strings.Cut(key, "/")
	for segment := range strings.SplitSeq(below, "/") {
		if strings.HasPrefix(segment, "_") || strings.HasPrefix(segment, ".") {
			return false
		}
	}
	return true
}

// folderOf returns the version in whose folder of a table a key lies, if its files are what readers of that
// folder may expect: it is committed and not pruned. Changes of which the feed lost the others before they
// were copied are not: the mirror itself left them there.
func folderOf(byNumber map[manifest.Number]*version, key string) *version {
	table, rest, _ := strings.Cut(key, "/")
	if !slices.Contains(tableFolders[:], table+"/") {
		return nil
	}
	_, rest, _ = strings.Cut(rest, "/") // the dataset's folder
	folder, _, inside := strings.Cut(rest, "/")
	for n, v := range byNumber {
		if !inside || folder != "ploti_version="+n.Padded() {
			continue
		}
		if v.committed == nil || v.held.Pruned || table == string(manifest.KindChanges) && v.committed.Record().Changes == manifest.ChangesExpired {
			return nil
		}
		return v
	}
	return nil
}

func misread(key, dataset string, n int64, detail string) Finding {
	return Finding{Kind: KindMisread, Key: key, Dataset: dataset, Version: n, Detail: detail,
		Hint: "Engines that read the folder take it for rows of the table. No mirror put it there: find out who did, and delete it."}
}

// foreign tells of a key below a table's folder that is none of the layout.
func (a *auditor) foreign(key, dataset string) {
	table, _, _ := strings.Cut(key, "/")
	if slices.Contains(tableFolders[:], table+"/") && visible(key) && strings.HasSuffix(strings.ToLower(key), ".parquet") {
		a.find(misread(key, dataset, 0, "no key of the bucket's layout"))
		return
	}
	a.note(Finding{Kind: KindForeign, Key: key, Dataset: dataset, Detail: "no key of the bucket's layout"})
}

// strayPublications notes files of the table of publications that its log does not list. A pass that lost
// a race for a commit leaves such a file behind, and a rebuild: readers of the log do not see it.
func (a *auditor) strayPublications(ctx context.Context) error {
	listed := map[string]bool{}
	for _, file := range a.shared.publications.Files {
		listed[file.Key] = true
	}
	for info, err := range a.Reader.List(ctx, tables.PublicationsRoot, "") {
		if err != nil {
			return err
		}
		young := a.Now().Sub(info.Modified) < inProgressFor
		switch {
		case listed[info.Key] || strings.HasPrefix(info.Key, tables.PublicationsRoot+"_delta_log/"):
		case !strings.HasSuffix(info.Key, ".parquet"):
			a.note(Finding{Kind: KindForeign, Key: info.Key, Detail: "no key of the bucket's layout"})
		case young:
			a.note(Finding{Kind: KindInProgress, Key: info.Key, Detail: "no commit of publications lists it yet"})
		default:
			a.note(Finding{Kind: KindOrphan, Key: info.Key, Detail: fmt.Sprintf("no commit of publications lists it: a pass or a rebuild left it (%d bytes); read the table by its log, not by its files", info.Size)})
		}
	}
	return nil
}

// partitionNames are the columns that stand in the paths of the tables, and the one that stands in the log
// of changes alone.
func partitionNames() []string { return []string{"ploti_dataset_id", "ploti_version", "released_date"} }

// shapeQueue gathers the versions whose columns are looked at in the end: what a store does wrong in
// passing is then met by the checks that tell of it.
type shapeQueue struct {
	mu       sync.Mutex
	versions map[shapeRef]bool
}

type shapeRef struct {
	dataset string
	version manifest.Number
}

func (q *shapeQueue) add(dataset string, n manifest.Number) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.versions == nil {
		q.versions = map[shapeRef]bool{}
	}
	q.versions[shapeRef{dataset, n}] = true
}

// checkShapes notes what is odd about the columns of versions.
func (a *auditor) checkShapes(ctx context.Context) error {
	a.Stage("columns")
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	for ref := range a.shapes.versions {
		group.Go(func() error {
			committed, err := a.recall(ctx, ref.dataset, ref.version)
			if err != nil {
				return ctx.Err() // it was read before: what is wrong with it now, the next audit tells
			}
			return a.shape(ctx, committed.Record())
		})
	}
	return group.Wait()
}

// shape notes what is odd about the columns of a version's files: engines differ in what they make of it.
func (a *auditor) shape(ctx context.Context, record manifest.Record) error {
	for _, kind := range []manifest.Kind{manifest.KindSnapshot, manifest.KindChanges, manifest.KindIDMap} {
		var parts []parquetinfo.PartInfo
		for _, file := range record.Files {
			if file.Kind != kind {
				continue
			}
			part, err := (tables.StoredFooters{Reader: a.Reader}).Footer(ctx, file)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil && part.Err == nil { // else it was told when the file was read, or the record doubts it
				parts = append(parts, part)
			}
		}
		for _, f := range oddities(record, parts) {
			a.note(f)
		}
	}
	return nil
}

// oddities returns a note for each column that is named like a partition, and for parts that disagree.
func oddities(record manifest.Record, parts []parquetinfo.PartInfo) []Finding {
	var notes []Finding
	add := func(path, facts, detail string) {
		notes = append(notes, Finding{Kind: KindColumns, Key: manifest.RecordKey(record.Dataset, record.Version), Dataset: record.Dataset, Version: int64(record.Version),
			Facts: path + " " + facts, Detail: path + ": " + detail})
	}
	if len(parts) == 0 {
		return nil
	}
	first := columnNames(&parts[0])
	for _, name := range first {
		if slices.ContainsFunc(partitionNames(), func(p string) bool { return strings.EqualFold(p, name) }) {
			add(parts[0].Path, "collides "+name, fmt.Sprintf("column %s is named like a partition: engines that read the folders by their names show the folder's value in its place", manifest.Quote(name)))
		}
	}
	for i := range parts[1:] {
		part := &parts[i+1]
		names := columnNames(part)
		if slices.Equal(names, first) {
			continue
		}
		if slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(first))) {
			add(part.Path, "order", fmt.Sprintf("its columns stand in another order than those of %s: engines that find columns by place mix them up", parts[0].Path))
		}
	}
	for _, doubt := range parquetinfo.Doubts(parts, parquetinfo.RowsUnknown) {
		if !slices.Contains(record.Doubts, doubt) {
			path, detail, _ := strings.Cut(doubt, ": ")
			add(path, "differs", detail)
		}
	}
	return notes
}

func columnNames(part *parquetinfo.PartInfo) []string {
	names := make([]string, len(part.Fields))
	for i := range part.Fields {
		names[i] = part.Fields[i].Name
	}
	return names
}
