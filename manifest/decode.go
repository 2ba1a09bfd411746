package manifest

import (
	"errors"
	"fmt"
	"io"

	"feedmirror/manifest/jsonstream"
)

// Limits of a manifest. A part is about 256 MB, so 100,000 files are about 25 TB; they are kept
// in memory, unlike attachments, which are handed on one by one.
const (
	MaxFiles         = 100_000
	MaxManifestBytes = 64 << 20 // of a manifest less its attachments
)

// DecodeManifest reads a manifest.json from a stream and hands each attachment to visit as it
// comes; an error of visit ends the reading and is returned in the chain. It takes the flat and
// both grouped forms of the file list, keys in any order, and leaves unknown ones alone.
//
// What it returns and hands on is checked entry by entry, and files against each other (Unique).
// That no two attachments share a name is not checked here: that takes memory for each. Bytes
// after the manifest's end are an error, so that nothing unread hides behind a good checksum.
func DecodeManifest(in io.Reader, visit func(Attachment) error) (Manifest, error) {
	return decodeManifest(in, visit, MaxManifestBytes, MaxFiles)
}

func decodeManifest(in io.Reader, visit func(Attachment) error, maxBytes int64, maxFiles int) (Manifest, error) {
	d := manifestDecoder{in: jsonstream.New(in), visit: visit, maxFiles: maxFiles, seen: map[string]bool{}}
	err := d.in.Bounded(maxBytes, func() error {
		if err := d.in.Object(d.member); err != nil {
			return err
		}
		return d.in.End()
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	return d.manifest, nil
}

// CheckFor returns an error when the manifest names another dataset or version than the one it
// was fetched for, or when a file would get a key there that a store cannot hold.
func (m Manifest) CheckFor(dataset string, n Number) error {
	if err := CheckDataset(dataset); err != nil {
		return err
	}
	if err := CheckNumber(n); err != nil {
		return err
	}
	if m.Dataset != "" && m.Dataset != dataset {
		return fmt.Errorf("manifest names dataset %s, not %s", Quote(m.Dataset), dataset)
	}
	if m.Version != 0 && m.Version != n {
		return fmt.Errorf("manifest names version %d, not %d", m.Version, n)
	}
	for _, f := range m.Files {
		if err := CheckKey(FileKey(dataset, n, f)); err != nil {
			return fmt.Errorf("path %s: %w", Quote(f.Path), err)
		}
	}
	return nil
}

type manifestDecoder struct {
	in       *jsonstream.Reader
	visit    func(Attachment) error
	maxFiles int
	manifest Manifest
	unique   Unique
	seen     map[string]bool // known members met at the top
}

// group is how the entries of one list are read.
type group struct {
	name string
	kind Kind // that the list stands for; "" where it mixes kinds
	// attachments is for the list of attachments, where no entry is a file.
	attachments bool
	// loose is for members that need not be lists of files: what has no name, size or checksum
	// is left alone.
	loose bool
	// foreign is for members at the top that no document names. Where groups stand at the top,
	// one of them can be a group of files of a kind we do not know, which must not be dropped: an
	// entry with a path, a size and a checksum is taken for one, anything less is left alone.
	foreign bool
}

// groupOf returns the group that a member's name stands for.
func groupOf(name string) (group, bool) {
	switch name {
	case "snapshot":
		return group{name: name, kind: KindSnapshot}, true
	case "changes":
		return group{name: name, kind: KindChanges}, true
	case "idMap", "id_map":
		return group{name: name, kind: KindIDMap}, true
	case "schema":
		// A manifest may carry the schema itself under this name.
		return group{name: name, kind: KindSchema, loose: true}, true
	case "attachments":
		return group{name: name, attachments: true}, true
	}
	return group{}, false
}

// member reads one member of the manifest's object.
func (d *manifestDecoder) member(name string) error {
	g, isGroup := groupOf(name)
	if !isGroup && name != "files" && name != "datasetId" && name != "version" {
		return d.group(group{name: name, loose: true, foreign: true})
	}
	if d.seen[name] {
		return fmt.Errorf("%s stands twice", name)
	}
	d.seen[name] = true
	switch {
	case isGroup:
		return d.group(g)
	case name == "files":
		return d.files()
	case name == "datasetId":
		return d.dataset()
	}
	return d.version()
}

func (d *manifestDecoder) dataset() error {
	id, err := readText(d.in)
	switch {
	case isTypeError(err):
		return nil
	case err != nil:
		return fmt.Errorf("datasetId: %w", err)
	case id == "":
		return nil
	}
	d.manifest.Dataset = id
	return CheckDataset(id)
}

func (d *manifestDecoder) version() error {
	number, err := readInteger(d.in, int64(MaxNumber))
	switch {
	case isTypeError(err):
		return nil
	case err != nil:
		return fmt.Errorf("version: %w", err)
	case number == nil:
		return nil
	}
	d.manifest.Version = Number(*number)
	return CheckNumber(d.manifest.Version)
}

// files reads the member "files": a list, or an object of groups.
func (d *manifestDecoder) files() error {
	kind, err := d.in.Peek()
	if err != nil {
		return err
	}
	if kind != jsonstream.Object {
		return d.group(group{name: "files"})
	}
	seen := map[string]bool{}
	return d.in.Object(func(name string) error {
		g, known := groupOf(name)
		if !known {
			return d.group(group{name: name, loose: true})
		}
		if seen[name] {
			return fmt.Errorf("files.%s stands twice", name)
		}
		seen[name] = true
		return d.group(g)
	})
}

// group reads a list of entries, a single one, or null for none.
func (d *manifestDecoder) group(g group) error {
	kind, err := d.in.Peek()
	if err != nil {
		return err
	}
	switch {
	case kind == jsonstream.Null:
		return d.in.Null()
	case kind == jsonstream.Object && (g.kind != "" || g.loose):
		return d.entry(g, 0)
	case kind != jsonstream.Array && g.loose:
		return nil
	case kind != jsonstream.Array:
		return fmt.Errorf("%s: want a list of entries, got %s", Quote(g.name), kind)
	}
	// What an attachment takes counts towards no bound, with the comma and space before it.
	position, end := 0, d.in.Offset()
	return d.in.Array(func() error {
		before := len(d.manifest.Files)
		if err := d.entry(g, position); err != nil {
			return err
		}
		if !g.loose && before == len(d.manifest.Files) {
			d.in.Forgive(d.in.Offset() - end)
		}
		position, end = position+1, d.in.Offset()
		return nil
	})
}

// entry reads one element of a group.
func (d *manifestDecoder) entry(g group, position int) error {
	if g.loose {
		if kind, err := d.in.Peek(); err != nil || kind != jsonstream.Object {
			return err
		}
	}
	entry, err := ReadEntry(d.in)
	if err != nil {
		return fmt.Errorf("%s entry %d: %w", Quote(g.name), position+1, err)
	}
	if g.loose && entry.IsEmpty() || g.foreign && !entry.isWholeFile() {
		return nil
	}
	if err := d.take(g, entry); err != nil {
		return fmt.Errorf("%s entry %d: %w", Quote(g.name), position+1, err)
	}
	return nil
}

// take keeps a file or hands on an attachment.
func (d *manifestDecoder) take(g group, entry Entry) error {
	if g.attachments || g.kind == "" && entry.IsAttachment() {
		attachment, err := entry.AsAttachment()
		if err != nil {
			return err
		}
		return d.visit(attachment)
	}
	file, err := entry.AsFile()
	if err != nil {
		return err
	}
	if err := g.place(&file); err != nil {
		return err
	}
	if len(d.manifest.Files) == d.maxFiles {
		return fmt.Errorf("more than %d files", d.maxFiles)
	}
	if err := d.unique.Add(file); err != nil {
		return err
	}
	d.manifest.Files = append(d.manifest.Files, file)
	return nil
}

// place checks that a file's path agrees with the group it stands in: a part that was listed as
// snapshot and kept as an extra file would leave readers with half a table. What stands alone
// as schema is the schema, whatever its name.
func (g group) place(file *File) error {
	switch {
	case g.kind == "" || g.kind == file.Kind:
		return nil
	case g.kind == KindSchema && file.Kind == KindExtra:
		file.Kind = KindSchema
		return nil
	}
	return errors.New("path " + Quote(file.Path) + " does not begin with " + Quote(string(g.kind)+"/") + ", as files of this list do")
}
