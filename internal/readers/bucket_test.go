//go:build readers

package readers_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// folder is a bucket as files.
type folder string

func (f folder) path(key string) string { return filepath.Join(string(f), filepath.FromSlash(key)) }

func (f folder) document(t *testing.T, key string, value any) {
	t.Helper()
	data, err := os.ReadFile(f.path(key))
	if err == nil {
		err = json.Unmarshal(data, value)
	}
	if err != nil {
		t.Fatalf("read %s: %v", key, err)
	}
}

// pointer is what the readers' tests need of current/<dataset>.json.
type pointer struct {
	Dataset         string
	Version         int64
	PreviousVersion int64
	Move            int64
	MovedAt         time.Time
	MovedBy         string
	Left            []struct {
		Version, Move int64
		Came          time.Time
		By            string
	}
}

// move is one move of a pointer.
type move struct {
	version int64
	at      time.Time
	by      string
}

// moves returns the versions that readers saw, in order.
func (p pointer) moves() []move {
	var list []move
	for _, left := range p.Left {
		list = append(list, move{left.Version, left.Came, left.By})
	}
	return append(list, move{p.Version, p.MovedAt, p.MovedBy})
}

// record is what the readers' tests need of a version's record.json.
type record struct {
	Dataset          string
	Version          int64
	PreviousVersion  int64
	Doubts           []string
	PublishedAt      time.Time
	SchemaVersion    string
	ResyncRequired   bool
	RecordIDsChanged bool `json:"recordIdsChanged"`
	Changes          string
	Gap              *struct{ Reason string }
	Files            []struct{ Kind, Key string }
	Attachments      struct {
		Count int64
		Index *struct{ Key string }
	}
}

func (f folder) record(t *testing.T, dataset string, version int64) record {
	t.Helper()
	var r record
	f.document(t, fmt.Sprintf("versions/%s/%010d/record.json", dataset, version), &r)
	return r
}

// rows reads the files of a kind that a record names.
func (f folder) rows(t *testing.T, r record, kind string) table {
	t.Helper()
	var all table
	for _, file := range r.Files {
		if file.Kind == kind {
			all.join(t, f.parquet(t, file.Key))
		}
	}
	return all
}

// at wants a dataset's pointer at a version.
func (w *world) at(t *testing.T, dataset string, version int64) {
	t.Helper()
	var p pointer
	folder(w.place.files(t)).document(t, "current/"+dataset+".json", &p)
	if p.Version != version {
		t.Fatalf("the pointer of %s is at %d, want %d", dataset, p.Version, version)
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
