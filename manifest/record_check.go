package manifest

import (
	"errors"
	"fmt"
)

// Encode returns the bytes that are stored. A record that Validate refuses is not encoded, so
// that no key outside of its version is ever written into the commit point. Lists without
// elements are written as [], times in UTC.
func (r Record) Encode() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if r.Files == nil {
		r.Files = []RecordFile{}
	}
	if r.Doubts == nil {
		r.Doubts = []string{}
	}
	r.PublishedAt, r.CommittedAt = r.PublishedAt.UTC(), r.CommittedAt.UTC()
	if r.FetchedAt != nil {
		at := r.FetchedAt.UTC()
		r.FetchedAt = &at
	}
	return EncodeDocument(r)
}

// Validate returns an error unless the record can be acted on: its dataset and numbers are safe,
// each key is the one that its dataset, version and path map to, files stay apart, and what it
// counts is possible. Records come from a bucket that others can write to, so whoever reads or
// deletes by a record's keys calls this first.
func (r Record) Validate() error {
	for _, check := range []func() error{r.checkHead, r.checkChain, r.checkDocuments, r.checkFiles, r.checkAttachments} {
		if err := check(); err != nil {
			return fmt.Errorf("record of dataset %s version %d: %w", Quote(r.Dataset), r.Version, err)
		}
	}
	return nil
}

func (r Record) checkHead() error {
	if r.Layout < 1 || r.Layout > LayoutVersion {
		return fmt.Errorf("layout %d is not between 1 and %d", r.Layout, LayoutVersion)
	}
	if err := CheckDataset(r.Dataset); err != nil {
		return err
	}
	if err := CheckNumber(r.Version); err != nil {
		return err
	}
	if r.RowCount < 0 {
		return fmt.Errorf("row count %d is negative", r.RowCount)
	}
	if c := r.Counts; c != nil && min(c.Added, c.Changed, c.Removed) < 0 {
		return errors.New("a negative count")
	}
	switch r.Changes {
	case ChangesPresent, ChangesEmpty, ChangesNotApplicable, ChangesExpired:
		return nil
	}
	return fmt.Errorf("unknown state of changes %s", Quote(string(r.Changes)))
}

func (r Record) checkChain() error {
	if r.PreviousVersion < 0 || r.PreviousVersion >= r.Version {
		return fmt.Errorf("previous version %d is not lower", r.PreviousVersion)
	}
	if p := r.PreviousRecord; p != nil {
		if p.Version < 1 || p.Version >= r.Version {
			return fmt.Errorf("previous record %d is not of a lower version", p.Version)
		}
		if p.SHA256.IsZero() {
			return errors.New("previous record without a hash")
		}
	}
	if r.Gap == nil {
		return nil
	}
	if r.Gap.Expected < 0 || r.Gap.Expected >= r.Version {
		return fmt.Errorf("gap expects version %d, which is not lower", r.Gap.Expected)
	}
	switch r.Gap.Reason {
	case GapExpired, GapWithdrawn, GapIncomplete, GapHistoryCurrent, GapFork:
		return nil
	}
	return fmt.Errorf("unknown reason of a gap %s", Quote(string(r.Gap.Reason)))
}

func (r Record) checkDocuments() error {
	if err := r.Manifest.check("manifest", ManifestKey(r.Dataset, r.Version)); err != nil {
		return err
	}
	if err := CheckSize(r.ManifestSize); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return r.Sums.check("sums", SumsKey(r.Dataset, r.Version))
}

func (o ObjectRef) check(what, key string) error {
	switch {
	case o.Key != key:
		return fmt.Errorf("%s key is %s, not %s", what, Quote(o.Key), key)
	case o.SHA256.IsZero():
		return fmt.Errorf("%s without a hash", what)
	}
	return nil
}

func (r Record) checkFiles() error {
	var unique Unique
	for i, f := range r.Files {
		if err := f.check(r.Dataset, r.Version); err != nil {
			return fmt.Errorf("file %d: %w", i+1, err)
		}
		if err := unique.Add(f.File()); err != nil {
			return fmt.Errorf("file %d: %w", i+1, err)
		}
	}
	return nil
}

func (f RecordFile) check(dataset string, n Number) error {
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	// A schema may have any path that is not that of another kind, as in the decoder's groups.
	if kind := KindOf(f.Path); f.Kind != kind && (f.Kind != KindSchema || kind != KindExtra) {
		return fmt.Errorf("path %s is not of kind %s", Quote(f.Path), Quote(string(f.Kind)))
	}
	key := FileKey(dataset, n, f.File())
	if err := CheckKey(key); err != nil {
		return err
	}
	if f.Rows != nil && *f.Rows < 0 {
		return fmt.Errorf("path %s has %d rows", Quote(f.Path), *f.Rows)
	}
	if err := CheckSize(f.Size); err != nil {
		return fmt.Errorf("path %s: %w", Quote(f.Path), err)
	}
	return ObjectRef{Key: f.Key, SHA256: f.SHA256}.check("path "+Quote(f.Path), key)
}

// File returns the file as its manifest named it.
func (f RecordFile) File() File {
	return File{Kind: f.Kind, Path: f.Path, Size: f.Size, SHA256: f.SHA256}
}

func (r Record) checkAttachments() error {
	a := r.Attachments
	switch {
	case min(a.Count, a.Objects, a.Bytes, a.NewObjects, a.NewBytes, a.Carried) < 0:
		return errors.New("a negative number of attachments")
	case a.Objects > a.Count || a.NewObjects > a.Objects || a.NewBytes > a.Bytes || a.Carried > a.Count:
		return errors.New("more attachments of a kind than there are of all")
	case a.Count > 0 && a.Index == nil:
		return errors.New("attachments without an index")
	case a.Index == nil:
		return nil
	}
	return a.Index.check("attachment index", IndexKey(r.Dataset, r.Version))
}
