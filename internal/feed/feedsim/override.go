package feedsim

import (
	"fmt"
	"slices"
)

// OverrideList changes the bytes of every answer to the list of datasets. nil undoes it. The change must not call
// the feed.
func (f *Feed) OverrideList(change func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listChange = change
}

// OverrideVersion changes the bytes of a version's answer. nil undoes it. Versions with more than a thousand
// attachments are streamed and cannot be changed.
func (d *Dataset) OverrideVersion(number int64, change func([]byte) []byte) error {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	v := d.find(number)
	if v == nil {
		return fmt.Errorf("override version %d of %q: %w", number, d.spec.ID, errNeverReleased)
	}
	v.change = change
	return nil
}

// OverrideManifest changes the bytes of a version's manifest.json. The version's own answer then names the size and
// hash of the changed bytes, so that the manifest verifies and only its content contradicts.
func (d *Dataset) OverrideManifest(number int64, change func([]byte) []byte) error {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	v := d.find(number)
	if v == nil {
		return fmt.Errorf("override manifest of version %d of %q: %w", number, d.spec.ID, errNeverReleased)
	}
	last := len(v.files) - 1
	data, err := v.files[last].all()
	if err != nil {
		return fmt.Errorf("read manifest of version %d of %q: %w", number, d.spec.ID, err)
	}
	changed := *v
	changed.files = slices.Clone(v.files)
	changed.files[last] = newFile(kindManifest, manifestName, "application/json", newBytesBlob(change(data)))
	// A copy takes the version's place: answers under way keep the old one.
	d.versions[slices.Index(d.versions, v)] = &changed
	return nil
}

// RewriteHistory replaces a released version's snapshot by other bytes under the same number: the same rows, said to
// have been read elsewhere. Its manifest and its answer agree with the new bytes.
func (d *Dataset) RewriteHistory(number int64) error {
	d.building.Lock()
	defer d.building.Unlock()
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	v := d.find(number)
	if v == nil || v.table.Schema.Columns == nil {
		return fmt.Errorf("rewrite version %d of %q: %w", number, d.spec.ID, errNeverReleased)
	}
	rewritten := *v
	elsewhere := "https://mirror.example.gov/rewritten"
	rewritten.sourceURL = &elsewhere
	rewritten.files = nil
	if err := d.writeSnapshot(&rewritten, v.table.Schema, Contents{Envelope: rewritten.envelope(), Snapshot: v.table.Rows}, ReleaseSpec{Parts: len(v.inGroup(kindSnapshot))}); err != nil {
		return fmt.Errorf("rewrite version %d of %q: %w", number, d.spec.ID, err)
	}
	for _, f := range v.files {
		if f.kind != kindSnapshot && f.kind != kindManifest {
			rewritten.files = append(rewritten.files, f)
		}
	}
	manifest, err := d.feed.manifestBlob(&rewritten, rewritten.files)
	if err != nil {
		return fmt.Errorf("rewrite manifest of version %d of %q: %w", number, d.spec.ID, err)
	}
	rewritten.files = append(rewritten.files, newFile(kindManifest, manifestName, "application/json", manifest))
	d.versions[slices.Index(d.versions, v)] = &rewritten
	return nil
}
