package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// RebuiltPublications is what became of the table of publications.
type RebuiltPublications struct {
	Outcome
	Deleted int // files of the old log
	// Unknown are moves that neither a pointer nor a file remembers, by dataset, as ranges.
	Unknown map[string][]string
	// Unusable are files below the table's root that cannot be read, with the reason.
	Unusable map[string]string
}

// RebuildPublications writes the log of the table of publications anew. Rows come from the table's own
// files, which stand without the log, and from what the pointers of all datasets remember, which wins.
// What neither knows cannot be known: it is told, and never made up. Files whose rows are in the table
// already, or contradict records, are listed no more; they stay where they are.
func (p *Projector) RebuildPublications(ctx context.Context, store ClearStore, datasets []string, run string) (RebuiltPublications, error) {
	result := RebuiltPublications{Outcome: Outcome{Root: PublicationsRoot, Commit: -1}}
	g := &gathered{projector: p, seen: map[string]map[int64]bool{}, remembered: map[string]map[int64]Publication{}, unusable: map[string]string{}}
	for _, dataset := range datasets {
		if err := g.remember(ctx, dataset); err != nil {
			return result, fmt.Errorf("rebuild publications: %w", err)
		}
	}
	if err := g.files(ctx); err != nil {
		return result, fmt.Errorf("rebuild publications: %w", err)
	}
	g.addRemembered()
	result.Unknown, result.Unusable = g.unknown(), g.unusable
	var err error
	if result.Deleted, err = Clear(ctx, store, PublicationsRoot); err != nil || len(g.seen) == 0 {
		return result, err
	}
	if len(g.rows) > 0 {
		add, err := p.storePublications(ctx, g.rows, run)
		if err != nil {
			return result, fmt.Errorf("rebuild publications: %w", err)
		}
		g.adds = append(g.adds, action{Add: add})
	}
	result.Outcome, err = p.shared(ctx, publicationsTable(), func(_ context.Context, _ log, found listing) ([]action, error) {
		if found.head >= 0 {
			return nil, &fault.Error{Op: "rebuild publications", Object: PublicationsRoot, Side: fault.SideBucket, Kind: fault.Conflict,
				Err: errors.New("a pass began the log anew meanwhile"), Hint: "Run it again: what the old files say is not in it yet."}
		}
		return append(g.txns(), g.adds...), nil
	})
	return result, err
}

// gathered is what is known of the moves of all pointers.
type gathered struct {
	projector  *Projector
	remembered map[string]map[int64]Publication // by dataset and move
	seen       map[string]map[int64]bool
	rows       []Publication // that no file holds
	adds       []action      // the files that are listed as they are
	unusable   map[string]string
}

func (g *gathered) remember(ctx context.Context, dataset string) error {
	pointer, _, err := state.Read[state.Pointer](ctx, g.projector.Store, manifest.PointerKey(dataset))
	if err != nil || pointer == nil {
		return err
	}
	rows, err := PublicationsOf(pointer, func(n manifest.Number) (manifest.Record, error) {
		committed, err := state.Recall(ctx, g.projector.Store, dataset, n)
		return committed.Record(), err
	})
	if err != nil {
		return err
	}
	g.remembered[dataset] = map[int64]Publication{}
	for _, row := range rows {
		g.remembered[dataset][row.Move] = row
	}
	return nil
}

// files takes over the table's files.
func (g *gathered) files(ctx context.Context) error {
	folder := log{root: PublicationsRoot}.folder()
	for info, err := range g.projector.Store.List(ctx, PublicationsRoot, "") {
		if err != nil {
			return err
		}
		if strings.HasPrefix(info.Key, folder) || !strings.HasSuffix(info.Key, ".parquet") {
			continue
		}
		if err := g.file(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

func (g *gathered) file(ctx context.Context, info bucket.Info) error {
	rows, err := ReadPublications(ctx, g.projector.Store, info.Key)
	if fault.Is(err, fault.Malformed) {
		g.unusable[info.Key] = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	var fresh []Publication
	for i := range rows {
		stands, err := g.stands(ctx, &rows[i])
		if err != nil {
			return err
		}
		if stands && !g.seen[rows[i].Dataset][rows[i].Move] && !slices.ContainsFunc(fresh, func(p Publication) bool { return sameMove(&p, &rows[i]) }) {
			fresh = append(fresh, rows[i])
		}
	}
	for i := range fresh {
		g.see(fresh[i].Dataset, fresh[i].Move)
	}
	if len(fresh) < len(rows) || len(rows) == 0 {
		g.rows = append(g.rows, fresh...)
		return nil
	}
	part, err := (StoredFooters{g.projector.Store}).Footer(ctx, manifest.RecordFile{Key: info.Key, Size: info.Size})
	if err != nil {
		return err
	}
	path, err := relativePath(PublicationsRoot, info.Key)
	if err != nil {
		return err
	}
	stats, err := statsOf(&part)
	if err != nil {
		return err
	}
	f := file{path: path, size: info.Size, modified: info.Modified, stats: stats}
	g.adds = append(g.adds, action{Add: f.add()})
	return nil
}

func sameMove(a, b *Publication) bool { return a.Dataset == b.Dataset && a.Move == b.Move }

func (g *gathered) see(dataset string, move int64) {
	if g.seen[dataset] == nil {
		g.seen[dataset] = map[int64]bool{}
	}
	g.seen[dataset][move] = true
}

// stands reports whether a row agrees with the pointer, as far as that remembers, and with the record.
func (g *gathered) stands(ctx context.Context, row *Publication) (bool, error) {
	if remembered, ok := g.remembered[row.Dataset][row.Move]; ok {
		return row.Same(&remembered), nil
	}
	if row.Move < 1 || g.remembered[row.Dataset] == nil || row.Move > slices.Max(slices.Collect(maps.Keys(g.remembered[row.Dataset]))) {
		return false, nil // the pointer never made it
	}
	want, err := g.wanted(ctx, row)
	return err == nil && want != nil && row.Same(want), err
}

// wanted returns what a row must say by its version's record; nil where there is none.
func (g *gathered) wanted(ctx context.Context, row *Publication) (*Publication, error) {
	previous := manifest.Number(0)
	if row.PreviousVersion != nil {
		previous = manifest.Number(*row.PreviousVersion)
	}
	want, err := publicationOf(ctx, g.projector.Store, row.Dataset,
		move{number: row.Move, version: manifest.Number(row.Version), previous: previous, at: row.MovedAt, by: state.Action(row.Action)})
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // no record, no row
	}
	return &want, err
}

// addRemembered adds the moves that no file holds.
func (g *gathered) addRemembered() {
	for dataset, moves := range g.remembered {
		for number, row := range moves {
			if !g.seen[dataset][number] {
				g.see(dataset, number)
				g.rows = append(g.rows, row)
			}
		}
	}
	slices.SortFunc(g.rows, func(a, b Publication) int {
		return cmp.Or(a.MovedAt.Compare(b.MovedAt), strings.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Move, b.Move))
	})
}

func (g *gathered) txns() []action {
	var actions []action
	for _, dataset := range slices.Sorted(maps.Keys(g.seen)) {
		last := slices.Max(slices.Collect(maps.Keys(g.seen[dataset])))
		actions = append(actions, action{Txn: &txn{AppID: appID(dataset), Version: last, LastUpdated: millis(g.projector.Now())}})
	}
	return actions
}

// unknown returns the numbers of moves that were made and of which nothing is known.
func (g *gathered) unknown() map[string][]string {
	missing := map[string][]string{}
	for dataset, moves := range g.seen {
		if ranges := MissingMoves(slices.Collect(maps.Keys(moves))); len(ranges) > 0 {
			missing[dataset] = ranges
		}
	}
	return missing
}

// MissingMoves returns the numbers from 1 to the greatest of moves that are not among them, as ranges.
func MissingMoves(moves []int64) []string {
	slices.Sort(moves)
	var ranges []string
	next := int64(1)
	for _, n := range moves {
		switch {
		case n == next+1:
			ranges = append(ranges, fmt.Sprint(next))
		case n > next:
			ranges = append(ranges, fmt.Sprintf("%d-%d", next, n-1))
		}
		next = max(next, n+1)
	}
	return ranges
}
