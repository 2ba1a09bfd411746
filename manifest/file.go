package manifest

// Kind says what a file of a version is. It is also the first segment of its key, except for
// schema and extra files, which stand beside the record.
type Kind string

// The kinds of files. A file is of the kind its manifest path's first segment names
// (snapshot/, changes/, id_map/ or idMap/); "schema.json" is the schema; all else is extra.
const (
	KindSnapshot Kind = "snapshot"
	KindChanges  Kind = "changes"
	KindIDMap    Kind = "id_map"
	KindSchema   Kind = "schema"
	KindExtra    Kind = "extra"
)

// File is one file of a version that its manifest names by path.
type File struct {
	Kind   Kind
	Path   string // as the manifest spells it; checked by CheckPath
	Size   int64  // bytes
	SHA256 SHA256
}

// Attachment is one stored file of a dataset as of a version. Name joins rows to it and never
// becomes a key; SHA256 is the checksum of its bytes and can differ from a hash in the name.
type Attachment struct {
	Name        string // "source:<id>", "original" or "document:<sha256>"
	Filename    string
	ContentType string
	Size        int64 // bytes
	SHA256      SHA256
}

// Manifest is a decoded manifest.json without its attachments, which are streamed because a
// version can list a million of them.
type Manifest struct {
	Dataset string // empty when the manifest does not name it
	Version Number // zero when the manifest does not name it
	Files   []File // in the manifest's order
}
