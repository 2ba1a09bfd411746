package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Reading is what a log says, read from its first commit to its newest, whatever its checkpoints and
// the mirror's own shortcuts say.
type Reading struct {
	Root string
	Head int64 // number of the newest commit that was read; -1 when there is none
	// Whole tells that every commit could be read: else Files and Reached are those of an old one.
	Whole bool
	// Files are what the head lists, in the order of their keys.
	Files []Listed
	// Reached is how far the log says it got, by dataset: a version, in publications a number of a move.
	Reached  map[string]int64
	Problems []Problem // what is wrong with the log itself; Files may then be out of date
	Foreign  []string  // keys in the log's folder that engines pass over
}

// Listed is a file that a log lists.
type Listed struct {
	Key        string
	Size       int64 // bytes
	Partitions map[string]string
	Rows       int64 // by its statistics; -1 where they do not say
}

// Problem is something about a log that engines trip over or are misled by.
type Problem struct {
	Code   string // one word, for programs
	Key    string // of the file of the log
	Detail string
}

// State is what a log says right after one of its commits.
type State struct {
	Key     string          // of the commit
	Dataset string          // that the commit is about; empty in logs of several datasets
	Version manifest.Number // that the commit says it shows
	Record  string          // sha256 of that version's record, by the commit; empty where it does not say
	Move    int64           // of the pointer, which led there, by the commit; zero where it does not say
	reader  *logReader
}

// Files returns what the log lists after this commit, in the order of their keys.
func (s State) Files() []Listed { return s.reader.listed() }

// Read reads a log commit by commit. visit is told of every commit that could be applied; nil: nobody
// is. Errors are those of the store: what is wrong with the log is in the reading.
func Read(ctx context.Context, r bucket.Reader, root string, visit func(State)) (Reading, error) {
	l := &logReader{store: r, folder: root + "_delta_log/", visit: visit, now: newContents(),
		found: Reading{Root: root, Head: -1, Reached: map[string]int64{}}}
	// The hint comes first: the checkpoint that it names is then in the listing.
	hint, hinted, err := l.readHint(ctx)
	if err != nil {
		return l.found, err
	}
	if err := l.list(ctx); err != nil {
		return l.found, err
	}
	if hinted && !slices.Contains(l.checkpoints, hint) {
		l.problem("hint", l.folder+"_last_checkpoint", "it leads to checkpoint %d, which is not there", hint)
	}
	if err := l.readAll(ctx); err != nil {
		return l.found, err
	}
	l.found.Files = l.listed()
	for id, t := range l.now.txns {
		if dataset, ours := strings.CutPrefix(id, appID("")); ours && manifest.CheckDataset(dataset) == nil { // the count of records has an id of its own
			l.found.Reached[dataset] = t.Version
		}
	}
	return l.found, nil
}

// logReader reads one log.
type logReader struct {
	store       bucket.Reader
	folder      string
	visit       func(State)
	commits     []int64 // ascending
	checkpoints []int64
	now         *contents // after the commits read so far
	table       string    // the table's id
	found       Reading
}

func (l *logReader) problem(code, key, format string, args ...any) {
	l.found.Problems = append(l.found.Problems, Problem{Code: code, Key: key, Detail: fmt.Sprintf(format, args...)})
}

// log names the files of the log; nothing is done with it.
func (l *logReader) log() log { return log{root: l.found.Root} }

func (l *logReader) readHint(ctx context.Context) (version int64, found bool, err error) {
	key := l.folder + "_last_checkpoint"
	text, _, err := bucket.ReadAll(ctx, l.store, key, 64<<10)
	switch {
	case fault.Is(err, fault.NotFound):
		return 0, false, nil
	case fault.Is(err, fault.Malformed):
		l.problem("hint", key, "it cannot be used: %v", err)
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	last := decodeHint(text)
	if last.Version < 0 {
		l.problem("hint", key, "it names no checkpoint")
	}
	return last.Version, last.Version >= 0, nil
}

func (l *logReader) list(ctx context.Context) error {
	for info, err := range l.store.List(ctx, l.folder, "") {
		if err != nil {
			return err
		}
		kind, n := parseName(strings.TrimPrefix(info.Key, l.folder))
		switch kind {
		case nameCommit:
			l.commits = append(l.commits, n)
		case nameCheckpoint:
			l.checkpoints = append(l.checkpoints, n)
		case nameOfOthers:
			l.problem("foreign-file", info.Key, "engines read it, and no mirror wrote it")
		case nameForeign:
			l.found.Foreign = append(l.found.Foreign, info.Key)
		}
	}
	return nil
}

// readAll applies the commits in order, up to the first that engines could not read.
func (l *logReader) readAll(ctx context.Context) error {
	l.found.Whole = true
	for at, n := range l.commits {
		if n != int64(at) {
			l.problem("gap", l.log().commitKey(n), "commit %d is missing: engines refuse the log or read it wrongly", at)
			l.found.Whole = false
			break
		}
		applied, err := l.readOne(ctx, n)
		if err != nil {
			return err
		}
		if l.found.Whole = applied; !applied {
			break
		}
		l.found.Head = n
		if slices.Contains(l.checkpoints, n) {
			if err := l.compareCheckpoint(ctx, n); err != nil {
				return err
			}
		}
	}
	for _, n := range l.checkpoints {
		if l.found.Whole && n > l.found.Head {
			l.problem("checkpoint", l.log().checkpointKey(n), "it is ahead of the newest commit, %d", l.found.Head)
		}
	}
	return nil
}

// readOne applies one commit and reports whether engines can read it.
func (l *logReader) readOne(ctx context.Context, n int64) (bool, error) {
	key := l.log().commitKey(n)
	text, _, err := bucket.ReadAll(ctx, l.store, key, maxCommit)
	var actions []action
	if err == nil {
		if actions, err = decodeCommit(text); err != nil {
			err = &fault.Error{Op: "read commit", Object: key, Side: fault.SideBucket, Kind: fault.Malformed, Err: err}
		}
	}
	switch {
	case fault.Is(err, fault.Malformed):
		l.problem("unreadable", key, "%v", errors.Unwrap(err))
		return false, nil
	case err != nil:
		return false, err
	case len(actions) == 0:
		l.problem("unreadable", key, "it holds no action")
		return false, nil
	}
	said, err := readStamp(actions)
	if err != nil {
		l.problem("foreign-commit", key, "no mirror wrote it: readers see what somebody else did to the table")
	}
	l.checkActions(key, n, actions, said)
	l.now.apply(actions)
	if l.visit != nil && err == nil {
		l.visit(State{Key: key, Dataset: said.Dataset, Version: said.Version, Record: said.Record, Move: said.Move, reader: l})
	}
	return true, nil
}

// checkActions holds a commit against what came before it and against what it says of itself.
func (l *logReader) checkActions(key string, n int64, actions []action, said stamp) {
	described, ruled, moved := n > 0, n > 0, said.Dataset == ""
	for i := range actions {
		a := &actions[i]
		if l.checkFile(key, a); a.Protocol != nil {
			ruled = true
			if !reflect.DeepEqual(*a.Protocol, protocolFor(nil, false)) && !reflect.DeepEqual(*a.Protocol, protocolFor(nil, true)) {
				l.problem("protocol", key, "it asks for a protocol that no mirror asks for")
			}
		}
		if a.MetaData != nil {
			described = true
			l.checkMetaData(key, a.MetaData, said)
		}
		if a.Txn != nil && said.Dataset != "" {
			moved = true
			if a.Txn.AppID != appID(said.Dataset) || a.Txn.Version != int64(said.Version) {
				l.problem("stamp", key, "its txn says %s at %d, its userMetadata %s at %d", a.Txn.AppID, a.Txn.Version, appID(said.Dataset), said.Version)
			}
		}
	}
	if !moved {
		l.problem("stamp", key, "its userMetadata says %s at %d, and no txn does", appID(said.Dataset), said.Version)
	}
	if !described || !ruled {
		l.problem("undescribed", key, "the first commit says no protocol or no schema")
	}
}

// checkFile holds what a commit lists and removes against what was listed before it.
func (l *logReader) checkFile(key string, a *action) {
	if a.Remove != nil {
		if _, listed := l.now.files[a.Remove.Path]; !listed {
			l.problem("remove", key, "it removes %s, which is not listed", manifest.Quote(a.Remove.Path))
		}
	}
	if a.Add != nil {
		if _, err := keyOf(l.found.Root, a.Add.Path); err != nil || strings.HasPrefix(a.Add.Path, "/") || strings.Contains(a.Add.Path, "://") {
			l.problem("path", key, "it lists %s, which lies outside the table", manifest.Quote(a.Add.Path))
		}
	}
}

func (l *logReader) checkMetaData(key string, m *metaData, said stamp) {
	if l.table != "" && m.ID != l.table {
		l.problem("table-id", key, "the table's id changes from %s to %s", manifest.Quote(l.table), manifest.Quote(m.ID))
	}
	l.table = m.ID
	var schema struct {
		Fields []json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal([]byte(m.SchemaString), &schema); err != nil || len(schema.Fields) == 0 {
		l.problem("schema", key, "its schema cannot be read")
		return
	}
	if said.Table != "" && (m.ID != said.Table || manifest.SumBytes([]byte(m.SchemaString)).String() != said.Columns) {
		l.problem("schema", key, "its id or schema is another one than its userMetadata says")
	}
}

// compareCheckpoint holds a checkpoint against the commits: engines read it in their place.
func (l *logReader) compareCheckpoint(ctx context.Context, n int64) error {
	key, said := l.log().checkpointKey(n), newContents()
	broken, err := visitCheckpoint(ctx, l.store, key, func(row *checkpointRow) { said.apply([]action{row.action()}) })
	switch {
	case broken != nil:
		l.problem("checkpoint", key, "it cannot be read: %v", broken)
		return nil
	case err != nil:
		return err
	}
	switch {
	case !reflect.DeepEqual(said.protocol, l.now.protocol):
		l.problem("checkpoint", key, "it asks for another protocol than the commits")
	case !sameMetaData(said.metaData, l.now.metaData):
		l.problem("checkpoint", key, "it describes the table otherwise than the commits")
	case !maps.Equal(said.txns, l.now.txns):
		l.problem("checkpoint", key, "it says otherwise than the commits how far the table got")
	default:
		if difference := differingFile(said.files, l.now.files); difference != "" {
			l.problem("checkpoint", key, "%s", difference)
		}
	}
	return nil
}

// sameMetaData takes an empty list or map for an absent one: Parquet keeps no difference.
func sameMetaData(a, b metaData) bool {
	same := slices.Equal(a.PartitionColumns, b.PartitionColumns) && maps.Equal(a.Configuration, b.Configuration) &&
		maps.Equal(a.Format.Options, b.Format.Options) && a.Format.Provider == b.Format.Provider
	return same && a.ID == b.ID && a.Name == b.Name && a.SchemaString == b.SchemaString && a.CreatedTime == b.CreatedTime
}

func differingFile(checkpoint, commits map[string]addFile) string {
	for path := range commits {
		other, listed := checkpoint[path]
		want := commits[path]
		switch {
		case !listed:
			return fmt.Sprintf("it lacks %s, which the commits list", manifest.Quote(path))
		case other.Size != want.Size || other.Stats != want.Stats || !maps.Equal(other.PartitionValues, want.PartitionValues):
			return fmt.Sprintf("it says otherwise than the commits of %s", manifest.Quote(path))
		}
	}
	for path := range checkpoint {
		if _, listed := commits[path]; !listed {
			return fmt.Sprintf("it lists %s, which the commits do not", manifest.Quote(path))
		}
	}
	return ""
}

func (l *logReader) listed() []Listed {
	list := make([]Listed, 0, len(l.now.files))
	for path, f := range l.now.files {
		key, err := keyOf(l.found.Root, path)
		if err != nil {
			key = l.found.Root + path // told as a problem
		}
		list = append(list, Listed{Key: key, Size: f.Size, Partitions: f.PartitionValues, Rows: rowsOf(f.Stats)})
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func rowsOf(stats string) int64 {
	var said struct {
		Rows *int64 `json:"numRecords"`
	}
	if json.Unmarshal([]byte(stats), &said) != nil || said.Rows == nil {
		return -1
	}
	return *said.Rows
}
