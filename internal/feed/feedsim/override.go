package feedsim

import "fmt"

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
	return d.replace(v, newFile(kindManifest, manifestName, "application/json", newBytesBlob(change(data))))
}

// replace swaps a version for a copy whose manifest is another: answers under way keep the old one. The feed is locked.
func (d *Dataset) replace(v *version, manifest file) error {
	changed := *v
	changed.files = append(append([]file(nil), v.files[:len(v.files)-1]...), manifest)
	for i := range d.versions {
		if d.versions[i] == v {
			d.versions[i] = &changed
			return nil
		}
	}
	return fmt.Errorf("replace version %d of %q: %w", v.number, d.spec.ID, errNeverReleased)
}
