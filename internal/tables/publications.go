package tables

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/bucket"
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
}

func publicationColumns() []Column {
	text, long, at, yes := Type{Name: typeString}, Type{Name: typeLong}, Type{Name: typeTimestamp}, Type{Name: typeBoolean}
	return []Column{
		{Name: datasetColumn, Type: text}, {Name: versionColumn, Type: long}, {Name: "previous_version", Type: long},
		{Name: "move", Type: long}, {Name: "published_at", Type: at}, {Name: "moved_at", Type: at},
		{Name: "schema_version", Type: text}, {Name: "resync_required", Type: yes}, {Name: "record_ids_changed", Type: yes},
		{Name: "changes", Type: text}, {Name: "gap", Type: text}, {Name: "action", Type: text},
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
func (p *Projector) Publications(ctx context.Context, datasets []string, run string) (Outcome, error) {
	l := log{store: p.Store, root: PublicationsRoot}
	outcome := Outcome{Root: PublicationsRoot, Commit: -1}
	try := 0
	found, err := l.commit(ctx, func(ctx context.Context, found listing) ([]action, error) {
		standing, before, err := p.shared(ctx, l, found, nil)
		if err != nil {
			return nil, err
		}
		rows, txns, err := p.newPublications(ctx, standing, datasets)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		try++
		add, err := p.storePublications(ctx, rows, fmt.Sprintf("%s-%d", run, try))
		if err != nil {
			return nil, err
		}
		actions, err := p.sharedCommit(found, before, "publications", publicationColumns(), nil, append(txns, action{Add: add}))
		outcome.Written = len(actions) > 0
		return actions, err
	})
	if err != nil {
		return outcome, fmt.Errorf("project table %s: %w", PublicationsRoot, err)
	}
	outcome.Commit = found.head
	if outcome.Written {
		outcome.Warning = l.checkpointIfDue(ctx, found)
	}
	return outcome, nil
}

// newPublications returns the rows that the table lacks, and how far it gets with them. The number of a
// dataset's last row stands in its txn: rows are counted there, and looked at by nobody.
func (p *Projector) newPublications(ctx context.Context, standing *contents, datasets []string) (rows []Publication, txns []action, err error) {
	for _, dataset := range slices.Sorted(slices.Values(datasets)) {
		pointer, _, err := state.Read[state.Pointer](ctx, p.Store, manifest.PointerKey(dataset))
		if err != nil {
			return nil, nil, err
		}
		if pointer == nil {
			continue
		}
		last := standing.txns[appID(dataset)].Version
		for _, m := range movesOf(pointer) {
			if m.number <= last {
				continue
			}
			row, err := publicationOf(ctx, p.Store, dataset, m)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, row)
		}
		if pointer.Move > last {
			txns = append(txns, action{Txn: &txn{AppID: appID(dataset), Version: pointer.Move, LastUpdated: millis(p.Now())}})
		}
	}
	slices.SortStableFunc(rows, func(a, b Publication) int {
		return cmp.Or(a.MovedAt.Compare(b.MovedAt), cmp.Compare(a.Dataset, b.Dataset))
	})
	return rows, txns, nil
}

func publicationOf(ctx context.Context, r bucket.Reader, dataset string, m move) (Publication, error) {
	committed, err := state.Recall(ctx, r, dataset, m.version)
	if err != nil {
		return Publication{}, err
	}
	record := committed.Record()
	row := Publication{
		Dataset: dataset, Version: int64(m.version), Move: m.number, PublishedAt: record.PublishedAt.UTC(), MovedAt: m.at.UTC(),
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
	return row, nil
}
