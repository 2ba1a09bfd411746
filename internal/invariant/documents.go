package invariant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// The documents of the bucket, with the fields that the checker looks at.

type objectRef struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
}

type recordFile struct {
	Kind   string `json:"kind"`
	Path   string `json:"path"`
	Key    string `json:"key"`
	Size   int64  `json:"sizeBytes"`
	SHA256 string `json:"sha256"`
}

type record struct {
	Layout          int    `json:"layout"`
	Dataset         string `json:"dataset"`
	Version         int64  `json:"version"`
	PreviousVersion *int64 `json:"previousVersion"`
	PreviousRecord  *struct {
		Version int64  `json:"version"`
		SHA256  string `json:"sha256"`
	} `json:"previousRecord"`
	Gap *struct {
		Expected int64  `json:"expected"`
		Reason   string `json:"reason"`
	} `json:"gap"`
	SchemaVersion string       `json:"schemaVersion"`
	Manifest      objectRef    `json:"manifest"`
	ManifestSize  int64        `json:"manifestSizeBytes"`
	Sums          objectRef    `json:"sha256sums"`
	Files         []recordFile `json:"files"`
	Changes       string       `json:"changes"`
	Attachments   struct {
		Count   int64      `json:"count"`
		Objects int64      `json:"objects"`
		Bytes   int64      `json:"bytes"`
		Index   *objectRef `json:"index"`
	} `json:"attachments"`
}

type pointer struct {
	Revision      int64     `json:"revision"`
	Dataset       string    `json:"dataset"`
	Version       int64     `json:"version"`
	SchemaVersion string    `json:"schemaVersion"`
	Record        objectRef `json:"record"`
	Manifest      objectRef `json:"manifest"`
	Snapshot      []string  `json:"snapshot"`
	Schema        *struct {
		Key string `json:"key"`
	} `json:"schema"`
	Pinned    bool     `json:"pinned"`
	Decisions []string `json:"decisions"` // keys of those that it obeys
}

type decision struct {
	Dataset string    `json:"dataset"`
	Action  string    `json:"action"`
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
}

// moves reports whether a pointer has to obey the decision; others only say something.
func (d decision) moves() bool {
	return d.Action == "approve" || d.Action == "rollback" || d.Action == "retire"
}

// note is what gone.json, withdrawn.json, pruned.json, stored.json and the mirror's own documents
// have in common; each class demands some of it.
type note struct {
	Revision int64           `json:"revision"`
	Layout   int             `json:"layout"`
	Dataset  string          `json:"dataset"`
	Version  int64           `json:"version"`
	Owner    string          `json:"owner"`
	From     *time.Time      `json:"from"`
	Until    json.RawMessage `json:"until"`
}

// decode reads one JSON object and nothing behind it.
func decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("no JSON of the right form: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("bytes follow the document")
	}
	return nil
}

// says asserts what only a document of this class says.
func (n note) says(class class) error {
	switch {
	case class == classLayout && n.Layout != 1:
		return fmt.Errorf("layout %d is not 1", n.Layout)
	case class == classLease && (n.Owner == "" || len(n.Until) == 0):
		return fmt.Errorf("owner or until is missing")
	case class == classWithdrawn && (n.From == nil || len(n.Until) == 0):
		return fmt.Errorf("from or until is missing")
	}
	return nil
}

// checkNote asserts what a document of a class must say. dataset and version are those of its key.
func checkNote(where place, data []byte) error {
	var n note
	if err := decode(data, &n); err != nil {
		return err
	}
	if err := n.says(where.class); err != nil {
		return err
	}
	swapped := where.class == classLayout || where.class == classShard || where.class == classLease || where.class == classStored || where.class == classWithdrawn
	ofVersion := where.class == classStored || where.class == classWithdrawn || where.class == classGone
	if swapped && n.Revision < 1 {
		return fmt.Errorf("revision is missing")
	}
	if ofVersion && (n.Dataset != where.dataset || fmt.Sprintf("%010d", n.Version) != where.version) {
		return fmt.Errorf("it is about dataset %q version %d", n.Dataset, n.Version)
	}
	return nil
}
