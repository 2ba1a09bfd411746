package interleavings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
)

// staticFeed is a feed in memory, with what a pass asks of it beside the bucket: whoever explores
// interleavings needs processes whose only requests are the bucket's.
type staticFeed struct {
	now      func() time.Time
	versions []staticVersion // in version order
}

// staticVersion is one version: a schema and documents, each of which is named by its text.
type staticVersion struct {
	number, previous manifest.Number
	major            int
	documents        []string
	withdrawn        bool
}

var staticBegan = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

func (v staticVersion) facts() manifest.Version {
	return manifest.Version{Dataset: permits, Number: v.number, Previous: v.previous, Schema: manifest.SchemaVersion{Major: v.major},
		PublishedAt: staticBegan.Add(time.Duration(v.number) * time.Hour), Counts: &manifest.Counts{}}
}

func (v staticVersion) schema() []byte { return []byte(`{"version":"` + v.number.Padded() + `"}`) }

func (v staticVersion) entries() []feed.Entry {
	schema := v.schema()
	list := []feed.Entry{{Kind: manifest.KindSchema, Name: "schema.json", Size: int64(len(schema)), SHA256: manifest.SumBytes(schema)}}
	for _, text := range v.documents {
		list = append(list, feed.Entry{Name: "document:" + text, Filename: text, ContentType: "text/plain",
			Size: int64(len(text)), SHA256: manifest.SumBytes([]byte(text))})
	}
	return list
}

func (v staticVersion) manifest() []byte {
	type entry struct {
		Path        string          `json:"path,omitempty"`
		File        string          `json:"file,omitempty"`
		Filename    string          `json:"filename,omitempty"`
		ContentType string          `json:"contentType,omitempty"`
		Size        int64           `json:"sizeBytes"`
		SHA256      manifest.SHA256 `json:"sha256"`
	}
	document := struct {
		Dataset     string  `json:"datasetId"`
		Version     int64   `json:"version"`
		Files       []entry `json:"files"`
		Attachments []entry `json:"attachments"`
	}{permits, int64(v.number), []entry{}, []entry{}}
	for _, e := range v.entries() {
		one := entry{Filename: e.Filename, ContentType: e.ContentType, Size: e.Size, SHA256: e.SHA256}
		if e.Kind == manifest.KindSchema {
			one.Path = e.Name
			document.Files = append(document.Files, one)
			continue
		}
		one.File = e.Name
		document.Attachments = append(document.Attachments, one)
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // plain data always encodes
	}
	return text
}

func (f *staticFeed) newest() staticVersion { return f.versions[len(f.versions)-1] }

func (f *staticFeed) find(n manifest.Number) (staticVersion, error) {
	for _, v := range f.versions {
		if v.number == n && !v.withdrawn {
			return v, nil
		}
	}
	return staticVersion{}, &fault.Error{Op: "read version", Side: fault.SideFeed, Kind: fault.Gone, Status: 410}
}

// Datasets implements mirror.Catalog.
func (f *staticFeed) Datasets(ctx context.Context, _ time.Time, visit func(feed.Dataset) error) (feed.Listing, error) {
	item, err := f.Dataset(ctx, permits)
	if err == nil {
		err = visit(item)
	}
	return feed.Listing{Items: 1, Date: f.now(), Greatest: item.PublishedAt}, err
}

// Dataset implements mirror.Catalog.
func (f *staticFeed) Dataset(_ context.Context, id string) (feed.Dataset, error) {
	newest := f.newest().facts()
	return feed.Dataset{ID: id, Current: newest.Number, PublishedAt: newest.PublishedAt}, nil
}

// Versions implements mirror.Catalog.
func (f *staticFeed) Versions(_ context.Context, _ string, after manifest.Number, visit func(manifest.Version) error) error {
	for _, v := range f.versions {
		if v.number <= after || v.withdrawn {
			continue
		}
		if err := visit(v.facts()); err != nil {
			return err
		}
	}
	return nil
}

// Version implements mirror.Signer.
func (f *staticFeed) Version(_ context.Context, _ string, n manifest.Number, visit func(feed.Entry) error) (feed.Answer, error) {
	v, err := f.find(n)
	if err != nil {
		return feed.Answer{}, err
	}
	for _, e := range v.entries() {
		if err := visit(e); err != nil {
			return feed.Answer{}, err
		}
	}
	text := v.manifest()
	return feed.Answer{Version: v.facts(), Received: time.Now(),
		Manifest: feed.Entry{Name: "manifest.json", Size: int64(len(text)), SHA256: manifest.SumBytes(text)}}, nil
}

// Links implements mirror.Signer.
func (f *staticFeed) Links(_ context.Context, _ string, n manifest.Number, _ []string) (feed.Links, error) {
	_, err := f.find(n)
	return feed.Links{Received: time.Now()}, err
}

// Read implements mirror.Manifests.
func (f *staticFeed) Read(_ context.Context, job transfer.Job, _ transfer.Linker, read func(io.Reader) error) error {
	v, err := f.find(job.Version)
	if err != nil {
		return err
	}
	return read(bytes.NewReader(v.manifest()))
}

// staticCopier copies the files of a staticFeed into a bucket, one after the other.
type staticCopier struct {
	feed  *staticFeed
	store bucket.Store
}

// Copy implements mirror.Copier.
func (c staticCopier) Copy(ctx context.Context, job transfer.Job, done func(transfer.File, transfer.Outcome)) (transfer.Summary, error) {
	v, err := c.feed.find(job.Version)
	if err != nil {
		return transfer.Summary{}, err
	}
	var summary transfer.Summary
	for file, err := range job.Files {
		if err != nil {
			return summary, err
		}
		outcome := c.copy(ctx, v, file)
		switch outcome.Status {
		case transfer.Copied:
			summary.Copied++
		case transfer.Present:
			summary.Present++
		default:
			summary.Failed++
		}
		done(file, outcome)
	}
	return summary, ctx.Err()
}

func (c staticCopier) copy(ctx context.Context, v staticVersion, file transfer.File) transfer.Outcome {
	data := v.schema()
	for _, text := range v.documents {
		if manifest.SumBytes([]byte(text)) == file.SHA256 {
			data = []byte(text)
		}
	}
	info, err := c.store.Create(ctx, file.Key, bucket.Content{Size: file.Size, SHA256: file.SHA256, Body: bytes.NewReader(data)})
	if fault.Is(err, fault.Exists) {
		var same bool
		if info, same, err = bucket.Holds(ctx, c.store, file.Key, file.Size, file.SHA256); err == nil && same {
			return transfer.Outcome{Status: transfer.Present, Info: info}
		}
	}
	if err != nil {
		return transfer.Outcome{Status: transfer.Failed, Err: err}
	}
	return transfer.Outcome{Status: transfer.Copied, Info: info}
}
