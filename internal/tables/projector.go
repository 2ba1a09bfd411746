package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
)

// Footers returns what the footer of a stored part says. A footer that cannot be read is a PartInfo
// with Err; an error is one of the store.
type Footers interface {
	Footer(ctx context.Context, file manifest.RecordFile) (parquetinfo.PartInfo, error)
}

// Projector brings tables up to date with the pointers and records of a bucket.
type Projector struct {
	Store   Store
	Footers Footers
	Now     func() time.Time
	NewID   func() string // of a new table: a UUID
	Engine  string        // name and version of this program, for the commits
}

// Outcome is what became of a table.
type Outcome struct {
	Root    string
	Commit  int64 // number of the newest commit; -1 when there is no log
	Written bool  // this call wrote it
	// Reason says why the published version has no table; empty when it has.
	Reason string
	// Warning is a failure to write a checkpoint. The table is right, and slower to open.
	Warning error
}

// stamp is what each commit of ours says of itself in userMetadata. It makes the newest commit of a
// log enough to go on from. People find the version of a dataset behind a commit here.
type stamp struct {
	Dataset string          `json:"ploti_dataset_id,omitempty"`
	Version manifest.Number `json:"ploti_version,omitempty"`
	Record  string          `json:"record_sha256,omitempty"` // of the version's record: it names the files
	Move    int64           `json:"move,omitempty"`          // of the pointer, which led there
	Reason  string          `json:"no_table,omitempty"`      // why the version is not shown
	Columns string          `json:"columns_sha256"`
	Table   string          `json:"table_id"`
	Created int64           `json:"created"` // milliseconds since 1970
	NTZ     bool            `json:"timestamp_ntz,omitempty"`
}

// readStamp returns the stamp of a commit; one without is not ours.
func readStamp(actions []action) (stamp, error) {
	for _, a := range actions {
		if a.CommitInfo == nil {
			continue
		}
		var s stamp
		if err := json.Unmarshal([]byte(a.CommitInfo.UserMetadata), &s); err != nil || s.Table == "" {
			break
		}
		return s, nil
	}
	return stamp{}, errors.New("its newest commit was not written by a mirror")
}

// file is a file that a table should list.
type file struct {
	path       string // relative to the table's root, URI-encoded
	size       int64
	modified   time.Time
	partitions map[string]string
	stats      string
}

func (f *file) add() *addFile {
	partitions := f.partitions
	if partitions == nil {
		partitions = map[string]string{}
	}
	return &addFile{Path: f.path, PartitionValues: partitions, Size: f.size, ModificationTime: millis(f.modified), DataChange: true, Stats: f.stats}
}

// view is the version that a table should show.
type view struct {
	dataset string
	version manifest.Number
	record  string // sha256 of its record
	move    int64  // of the pointer, which led there
	// describe reads what the commit says of it. It is asked only when the table shows something else.
	describe func(ctx context.Context) (description, error)
}

// description is what a table that shows one version of one dataset says.
type description struct {
	columns []Column
	files   []file
	reason  string // why there is no table; then there are no files
}

// show brings a table that shows one version up to date. see reads which one anew for each try; nil
// means that nothing is published.
func (p *Projector) show(ctx context.Context, root, name string, see func(ctx context.Context) (*view, error)) (Outcome, error) {
	l := log{store: p.Store, root: root}
	outcome := Outcome{Root: root, Commit: -1}
	found, err := l.commit(ctx, func(ctx context.Context, found listing) ([]action, error) {
		wanted, err := see(ctx)
		if err != nil || wanted == nil {
			return nil, err
		}
		standing, before, err := l.headOf(ctx, found)
		if err != nil {
			return nil, err
		}
		listed := addsOf(standing)
		if found.head >= 0 && before.Record == wanted.record && before.Move == wanted.move {
			outcome.Reason = before.Reason
			return nil, nil // the same record names the same files
		}
		described, err := wanted.describe(ctx)
		if err != nil {
			return nil, err
		}
		outcome.Reason = described.reason
		actions, err := p.switchTo(found, before, listed, name, wanted, described)
		outcome.Written = len(actions) > 0
		return actions, err
	})
	if err != nil {
		return outcome, fmt.Errorf("project table %s: %w", root, err)
	}
	outcome.Commit = found.head
	if outcome.Written {
		outcome.Warning = l.checkpointIfDue(ctx, found)
	}
	return outcome, nil
}

// headOf reads the newest commit, which says enough to go on from; nothing where there is no log.
func (l log) headOf(ctx context.Context, found listing) ([]action, stamp, error) {
	if found.head < 0 {
		return nil, stamp{}, nil
	}
	standing, err := l.read(ctx, found.head)
	if err != nil {
		return nil, stamp{}, err
	}
	before, err := readStamp(standing)
	if err != nil {
		return nil, stamp{}, l.damaged(err)
	}
	return standing, before, nil
}

// switchTo returns the commit that makes a table show what is wanted. Every move of the pointer is a
// commit, also one to a version that the table shows: who computed another one before is refused by it.
func (p *Projector) switchTo(found listing, before stamp, listed []*addFile, name string, wanted *view, described description) ([]action, error) {
	if found.head < 0 && len(described.files) == 0 {
		return nil, nil // no log before there is something to show
	}
	after, meta, err := p.stampOf(before, name, described, nil)
	if err != nil {
		return nil, err
	}
	after.Dataset, after.Version, after.Record, after.Move = wanted.dataset, wanted.version, wanted.record, wanted.move
	after.Reason = described.reason
	now := p.Now()
	actions := []action{{CommitInfo: p.info(now, found.head < 0, after)}}
	if found.head < 0 || after.NTZ != before.NTZ {
		protocol := protocolFor(described.columns, after.NTZ)
		actions = append(actions, action{Protocol: &protocol})
	}
	if found.head < 0 || after.Columns != before.Columns {
		actions = append(actions, action{MetaData: meta})
	}
	actions = append(actions, action{Txn: &txn{AppID: appID(wanted.dataset), Version: int64(wanted.version), LastUpdated: millis(now)}})
	for _, old := range listed {
		if !slices.ContainsFunc(described.files, func(f file) bool { return f.path == old.Path }) {
			actions = append(actions, action{Remove: removal(old, now)})
		}
	}
	for i := range described.files {
		actions = append(actions, action{Add: described.files[i].add()})
	}
	return actions, nil
}

func removal(old *addFile, now time.Time) *removeFile {
	return &removeFile{Path: old.Path, DeletionTimestamp: millis(now), DataChange: true, ExtendedFileMetadata: true,
		PartitionValues: old.PartitionValues, Size: old.Size}
}

// stampOf returns what the next commit says of itself, and the metadata behind it. A table keeps the
// id and the columns it had where a version has none to give.
func (p *Projector) stampOf(before stamp, name string, wanted description, partitions []string) (stamp, *metaData, error) {
	after := before
	if after.Table == "" {
		after.Table, after.Created = p.NewID(), millis(p.Now())
	}
	if wanted.reason != "" {
		return after, nil, nil
	}
	text, err := schemaString(wanted.columns)
	if err != nil {
		return stamp{}, nil, fmt.Errorf("encode schema: %w", err)
	}
	after.Columns = manifest.SumBytes([]byte(text)).String()
	after.NTZ = after.NTZ || needsNTZ(wanted.columns)
	if partitions == nil {
		partitions = []string{}
	}
	meta := &metaData{ID: after.Table, Name: name, Format: formatJSON{Provider: "parquet", Options: map[string]string{}},
		SchemaString: text, PartitionColumns: partitions, Configuration: tableConfiguration(), CreatedTime: after.Created}
	return after, meta, nil
}

func (p *Projector) info(now time.Time, first bool, s stamp) *commitInfo {
	operation := "WRITE"
	if first {
		operation = "CREATE TABLE AS SELECT"
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return &commitInfo{Timestamp: millis(now), Operation: operation, OperationParameters: map[string]string{"mode": "Overwrite"},
		EngineInfo: p.Engine, UserMetadata: string(text)}
}

func addsOf(actions []action) []*addFile {
	var list []*addFile
	for _, a := range actions {
		if a.Add != nil {
			list = append(list, a.Add)
		}
	}
	return list
}
