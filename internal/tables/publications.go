package tables

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Publication is one move of a pointer, as Parquet stores it. The names are what people write into
// SQL: never change them, only add.
type Publication struct {
	Dataset          string    `parquet:"ploti_dataset_id,dict"`
	Version          int64     `parquet:"ploti_version"`
	PreviousVersion  *int64    `parquet:"previous_version,optional"` // what readers saw before; null at first
	Move             int64     `parquet:"move"`                      // counts the dataset's moves from 1
	PublishedAt      time.Time `parquet:"published_at,timestamp(microsecond)"`
	MovedAt          time.Time `parquet:"moved_at,timestamp(microsecond)"`
	SchemaVersion    string    `parquet:"schema_version,dict"`
	ResyncRequired   bool      `parquet:"resync_required"`
	RecordIDsChanged bool      `parquet:"record_ids_changed"`
	Changes          string    `parquet:"changes,dict"`
	Gap              *string   `parquet:"gap,optional,dict"`
	Action           string    `parquet:"action,dict"`
	// A move can pass over versions, and over more than one: the columns above tell of the version that it
	// led to, those below of the way there.
	Reload          bool    `parquet:"reload"` // changes alone do not lead there
	ApplyVersions   []int64 `parquet:"apply_versions,list"`
	RewriteVersions []int64 `parquet:"rewrite_versions,list"` // whose id maps replace ids, in order
}

func publicationColumns() []Column {
	text, long, at, yes := Type{Name: typeString}, Type{Name: typeLong}, Type{Name: typeTimestamp}, Type{Name: typeBoolean}
	return []Column{
		{Name: datasetColumn, Type: text}, {Name: versionColumn, Type: long}, {Name: "previous_version", Type: long},
		{Name: "move", Type: long}, {Name: "published_at", Type: at}, {Name: "moved_at", Type: at},
		{Name: "schema_version", Type: text}, {Name: "resync_required", Type: yes}, {Name: "record_ids_changed", Type: yes},
		{Name: "changes", Type: text}, {Name: "gap", Type: text}, {Name: "action", Type: text},
		{Name: "reload", Type: yes}, {Name: "apply_versions", Type: Type{Name: typeArray, Element: &long}},
		{Name: "rewrite_versions", Type: Type{Name: typeArray, Element: &long}},
	}
}

// move is one move of a dataset's pointer.
type move struct {
	number   int64
	version  manifest.Number
	previous manifest.Number
	at       time.Time
	by       state.Action
}

// movesOf returns the moves that a pointer remembers, oldest first.
func movesOf(p *state.Pointer) []move {
	var moves []move
	previous := manifest.Number(0)
	for _, d := range p.Left {
		if d.Move > 0 {
			moves = append(moves, move{number: d.Move, version: d.Version, previous: previous, at: d.Came, by: d.By})
		}
		previous = d.Version
	}
	if p.Move > 0 {
		moves = append(moves, move{number: p.Move, version: p.Version, previous: previous, at: p.MovedAt, by: p.MovedBy})
	}
	return moves
}

// Publications makes the table of publications hold a row for every move of the datasets' pointers.
// One call writes at most one file and one commit. run names the file.
func (p *Projector) Publications(ctx context.Context, datasets []Progress, run string) (Outcome, error) {
	return p.shared(ctx, publicationsTable(), func(ctx context.Context, l log, found listing) ([]action, error) {
		reached, err := l.txns(ctx, found)
		if err != nil {
			return nil, err
		}
		var rows []Publication
		var actions []action
		for _, one := range datasets {
			if reached[appID(one.Dataset)] >= one.Moves {
				continue
			}
			these, moves, err := p.newPublications(ctx, one.Dataset, reached[appID(one.Dataset)])
			if err != nil {
				return nil, err
			}
			if len(these) > 0 {
				rows = append(rows, these...)
				actions = append(actions, action{Txn: &txn{AppID: appID(one.Dataset), Version: moves, LastUpdated: millis(p.Now())}})
			}
		}
		if len(rows) == 0 {
			return nil, nil
		}
		slices.SortStableFunc(rows, func(a, b Publication) int {
			return cmp.Or(a.MovedAt.Compare(b.MovedAt), cmp.Compare(a.Dataset, b.Dataset))
		})
		add, err := p.storePublications(ctx, rows, run)
		return append(actions, action{Add: add}), err
	})
}

// newPublications returns the rows that the table lacks, and how many moves it has with them. The number
// of a dataset's last row stands in its txn: rows are counted there, and looked at by nobody.
func (p *Projector) newPublications(ctx context.Context, dataset string, last int64) ([]Publication, int64, error) {
	pointer, _, err := state.Read[state.Pointer](ctx, p.Store, manifest.PointerKey(dataset))
	if err != nil || pointer == nil {
		return nil, 0, err
	}
	var rows []Publication
	for _, m := range movesOf(pointer) {
		if m.number <= last {
			continue
		}
		row, err := publicationOf(ctx, p.Store, dataset, m)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, pointer.Move, nil
}

func publicationOf(ctx context.Context, r bucket.Reader, dataset string, m move) (Publication, error) {
	recall := func(n manifest.Number) (manifest.Record, error) {
		committed, err := state.Recall(ctx, r, dataset, n)
		return committed.Record(), err
	}
	record, err := recall(m.version)
	if err != nil {
		return Publication{}, err
	}
	return rowOf(record, m, recall)
}

// rowOf returns the row of a move to the version of a record. recall returns the records of others.
func rowOf(record manifest.Record, m move, recall func(manifest.Number) (manifest.Record, error)) (Publication, error) {
	row := Publication{
		Dataset: record.Dataset, Version: int64(m.version), Move: m.number, PublishedAt: record.PublishedAt.UTC(), MovedAt: m.at.UTC(),
		SchemaVersion: record.SchemaVersion.String(), ResyncRequired: record.ResyncRequired, RecordIDsChanged: record.RecordIDsChanged,
		Changes: string(record.Changes), Action: string(m.by),
	}
	if m.previous != 0 {
		previous := int64(m.previous)
		row.PreviousVersion = &previous
	}
	if record.Gap != nil {
		reason := string(record.Gap.Reason)
		row.Gap = &reason
	}
	way, err := wayOf(record, m.previous, recall)
	row.Reload, row.ApplyVersions, row.RewriteVersions = way.Reload != 0, numbers(way.Apply), numbers(way.Rewrite)
	return row, err
}

// wayOf returns the way of a consumer who follows a move to a version. It is computed from records alone,
// as they stood when the version was committed: a prune, or a version that was copied later, changes no
// row.
func wayOf(to manifest.Record, from manifest.Number, recall func(manifest.Number) (manifest.Record, error)) (manifest.Route, error) {
	if from == 0 || from > to.Version {
		return manifest.Route{Reload: to.Version}, nil
	}
	versions := []manifest.RouteVersion{manifest.RouteVersionOf(to, false)}
	for v := to; v.PreviousVersion > from && v.Gap == nil; {
		before, err := recall(v.PreviousVersion)
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Malformed) {
			break // damage, which the audit names: it keeps no move out of the table
		}
		if err != nil {
			return manifest.Route{}, err
		}
		v = before
		versions = append(versions, manifest.RouteVersionOf(v, false))
	}
	slices.Reverse(versions)
	way, found := manifest.PlanRoute(versions, from, to.Version)
	if !found {
		return way, fmt.Errorf("find the way of %s from version %d to %d: none leads there", to.Dataset, from, to.Version)
	}
	return way, nil
}

func numbers(list []manifest.Number) []int64 {
	plain := make([]int64, len(list))
	for i, n := range list {
		plain[i] = int64(n)
	}
	return plain
}
