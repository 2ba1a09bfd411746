package feedsim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/feed/feedsim/records"
)

// errNeverReleased is the cause of an error about a version that the feed does not know.
var errNeverReleased = errors.New("version was never released")

// ReleaseSpec says what a release brings. The zero value adds, changes and removes a few rows; a first version gets the
// rows of its dataset's spec whatever this says.
type ReleaseSpec struct {
	Add, Change, Remove int           // rows; all zero: a few of each, unless Empty, a schema change or a new id is asked for
	Empty               bool          // no change at all: empty lists, counts of zero, the constant columns move
	Minor               bool          // adds a column
	PinKey              bool          // pins a key on a dataset that has none: MINOR
	Major               bool          // removes a column, or retypes one when none can go: resyncRequired
	Retype              bool          // turns a column into text: MAJOR, resyncRequired
	ReplaceIDs          bool          // replaces about half of the ids: id map, resyncRequired, recordIdsChanged
	Resync              bool          // resyncRequired for a reason that does not show
	SkipNumbers         int           // leaves this many numbers out before the version's
	Parts               int           // of the snapshot; default: the dataset's
	ChangeParts         int           // of the changes; default 1
	HeldFor             time.Duration // between build and release
	ChangeSource        bool          // the first archived source has other bytes from now on
	LeaveOut            []string      // attachments that could not be copied
	Extra               []ExtraFile   // files of kinds that no document names
	Previous            *int64        // overrides previousVersion, to make a fork; 0 is none

	// Contradictions, to be met by a careful reader.
	RowCountOff   int   // added to rowCount
	CountsOff     int64 // added to counts.added
	MixedParts    bool  // the last of several parts has a column of another type
	BrokenFooter  bool  // the first part ends in rubbish
	WrongManifest bool  // manifest.json names the hash of other bytes for the first part
	// Bend changes what is about to be written. Sizes, hashes and counts are those of the outcome, so that
	// the files contradict each other and nothing else.
	Bend func(c *Contents)
	// BendFile changes the bytes of a part before its size and hash are taken.
	BendFile func(path string, data []byte) []byte
}

// Contents is what the files of a version are made of.
type Contents struct {
	Envelope records.Envelope
	Snapshot []records.Row
	Changes  []records.Change
	Pairs    []records.IDPair // of the id map
}

// ExtraFile is a file of a kind that no document names.
type ExtraFile struct {
	Path string
	Data []byte
}

// Release builds and releases the next version and returns its number.
func (d *Dataset) Release(spec ReleaseSpec) (int64, error) {
	d.building.Lock()
	defer d.building.Unlock()
	if d.bulk != nil {
		return 0, fmt.Errorf("release %q: a bulk dataset releases by ReleaseBulk", d.spec.ID)
	}
	v, before := d.draft(spec)
	maker := &records.Maker{
		Random:  records.NewRandom(d.feed.options.Seed, cmp.Or(d.spec.TwinOf, d.spec.ID), v.number),
		Version: v.number, ReadAt: v.builtAt.Add(-readBeforeBuild), DocumentSize: d.spec.DocumentBytes,
	}
	table := d.table.Clone()
	pairs, err := d.edit(maker, &table, spec, before == nil)
	if err != nil {
		return 0, fmt.Errorf("release version %d of %q: %w", v.number, d.spec.ID, err)
	}
	d.numberSchema(v, before, table.Schema)
	v.idsChanged = len(pairs) > 0
	v.resync = v.resync || before == nil || v.idsChanged || v.breaksSchema()
	v.attachments = d.attach(maker, table, spec, before == nil)
	if err := d.writeFiles(v, table, pairs, spec); err != nil {
		return 0, fmt.Errorf("release version %d of %q: %w", v.number, d.spec.ID, err)
	}
	d.table, v.table = table, table
	d.publish(v)
	return v.number, nil
}

// ReleaseRebuild sends the rebuild of the version withdrawn last: its content under a new number. Its previousVersion
// names the withdrawn one and it is resyncRequired.
func (d *Dataset) ReleaseRebuild() (int64, error) {
	d.feed.mu.Lock()
	pending := d.pendingRebuild()
	d.feed.mu.Unlock()
	if pending == nil {
		return 0, fmt.Errorf("rebuild %q: no version awaits it", d.spec.ID)
	}
	return d.Release(ReleaseSpec{Empty: true})
}

// Hold builds a version that is held and never released: its number stays a gap.
func (d *Dataset) Hold() int64 {
	d.building.Lock()
	defer d.building.Unlock()
	held := d.next
	d.next++
	return held
}

// readBeforeBuild is how long before a version's build its source was read: as in the documents' example.
const readBeforeBuild = 11*time.Minute + 28*time.Second

// draft starts a version: numbers and times. It also returns the version released before it, nil for none.
func (d *Dataset) draft(spec ReleaseSpec) (v, before *version) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	now := d.feed.clock.Now().Truncate(time.Millisecond)
	v = &version{
		dataset: d, number: d.next + int64(spec.SkipNumbers), resync: spec.Resync,
		builtAt: now.Add(-spec.HeldFor), publishedAt: now,
	}
	d.next = v.number + 1
	if !d.spec.NoSource {
		url := fmt.Sprintf("https://gis.example.gov/export/%s?where=1%%3D1&f=geojson", d.spec.ID)
		fetched := v.builtAt.Add(-readBeforeBuild)
		v.sourceURL, v.fetchedAt = &url, &fetched
	}
	if len(d.versions) > 0 {
		before = d.versions[len(d.versions)-1]
		v.previous = before.number
		expired := !now.Before(before.builtAt.Add(d.feed.options.Retention))
		withdrawn := d.pendingRebuild()
		if withdrawn != nil {
			v.previous = withdrawn.number
		}
		v.resync = v.resync || expired || withdrawn != nil
	}
	if spec.Previous != nil {
		v.previous = *spec.Previous
	}
	return v, before
}

// pendingRebuild returns the newest withdrawn version that awaits its rebuild, nil for none. The feed is locked.
func (d *Dataset) pendingRebuild() *version {
	for _, v := range slices.Backward(d.versions) {
		if v.awaitsRebuild {
			return v
		}
	}
	return nil
}

// edit changes the table as the spec says and returns the id map, if ids were replaced.
func (d *Dataset) edit(maker *records.Maker, table *records.Table, spec ReleaseSpec, first bool) ([]records.IDPair, error) {
	if first {
		maker.AddRows(table, d.spec.Rows)
		return nil, nil
	}
	maker.ReadAgain(table)
	quiet := spec.Empty || spec.Minor || spec.PinKey || spec.Major || spec.Retype || spec.ReplaceIDs
	if spec.Add+spec.Change+spec.Remove == 0 && !quiet {
		spec.Add, spec.Change, spec.Remove = 3, 2, 1
	}
	var problems []error
	if spec.PinKey {
		problems = append(problems, maker.PinKey(table))
	}
	if spec.Major {
		if err := maker.RemoveColumn(table); err != nil {
			problems = append(problems, maker.RetypeColumn(table))
		}
	}
	if spec.Retype {
		problems = append(problems, maker.RetypeColumn(table))
	}
	var pairs []records.IDPair
	if spec.ReplaceIDs {
		pairs = maker.ReplaceIDs(table, 0.5)
	}
	maker.EditRows(table, spec.Add, spec.Change, spec.Remove)
	if spec.Minor {
		maker.AddColumn(table)
	}
	return d.carried(pairs, *table), errors.Join(problems...)
}

// carried keeps the pairs whose record is still in the table: an id map lists only carried records.
func (d *Dataset) carried(pairs []records.IDPair, table records.Table) []records.IDPair {
	present := map[string]bool{}
	for _, row := range table.Rows {
		present[row.ID] = true
	}
	return slices.DeleteFunc(pairs, func(p records.IDPair) bool { return !present[p.Current] })
}

// publish makes the version visible.
func (d *Dataset) publish(v *version) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	for _, earlier := range d.versions {
		earlier.awaitsRebuild = false
	}
	d.versions = append(d.versions, v)
}

// writeFiles makes the version's files, its manifest last.
func (d *Dataset) writeFiles(v *version, table records.Table, pairs []records.IDPair, spec ReleaseSpec) error {
	contents := Contents{Envelope: v.envelope(), Snapshot: table.Rows, Pairs: pairs}
	if !v.resync {
		contents.Changes = records.Diff(d.table, table)
	}
	if spec.Bend != nil {
		contents.Snapshot = table.Clone().Rows
		spec.Bend(&contents)
	}
	v.rowCount = int64(len(contents.Snapshot) + spec.RowCountOff)
	if !v.resync {
		v.counts = countChanges(contents.Changes)
		v.counts.Added += spec.CountsOff
		if err := d.writeChanges(v, table.Schema, contents, spec); err != nil {
			return err
		}
	}
	if err := d.writeSnapshot(v, table.Schema, contents, spec); err != nil {
		return err
	}
	if len(contents.Pairs) > 0 {
		var out bytes.Buffer
		if err := records.WriteIDMap(&out, d.spec.ID, contents.Pairs); err != nil {
			return fmt.Errorf("write id map: %w", err)
		}
		v.files = append(v.files, spec.part(kindIDMap, d.feed.options.Assume.IDMapFolder+"/part-0000.parquet", out.Bytes()))
	}
	for _, extra := range spec.Extra {
		v.files = append(v.files, newFile(kindExtra, extra.Path, "application/octet-stream", newBytesBlob(extra.Data)))
	}
	return d.writeDocuments(v, spec.WrongManifest)
}

// part makes a Parquet file of a version.
func (s ReleaseSpec) part(k kind, name string, data []byte) file {
	if s.BendFile != nil {
		data = s.BendFile(name, data)
	}
	return newFile(k, name, parquetType, newBytesBlob(data))
}

// writeDocuments adds schema.json and manifest.json.
func (d *Dataset) writeDocuments(v *version, wrong bool) error {
	schema, err := jsonBytes(d.feed.schemaObject(d.spec.ID, v.schema))
	if err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	v.files = append(v.files, newFile(kindSchema, "schema.json", "application/json", newBytesBlob(schema)))
	listed := slices.Clone(v.files)
	if wrong {
		listed[0].blob = newBytesBlob([]byte("bytes that no file has"))
	}
	manifest, err := d.feed.manifestBlob(v, listed)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	v.files = append(v.files, newFile(kindManifest, manifestName, "application/json", manifest))
	return nil
}

const manifestName = "manifest.json"

func countChanges(changes []records.Change) *counts {
	var c counts
	for _, change := range changes {
		switch change.Kind {
		case records.Added:
			c.Added++
		case records.Changed:
			c.Changed++
		default:
			c.Removed++
		}
	}
	return &c
}
