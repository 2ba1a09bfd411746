package tables

import (
	"context"
	"fmt"
)

// sharedTable is a table of all datasets.
type sharedTable struct {
	root       string
	name       string
	columns    []Column
	partitions []string
}

func changesTable() sharedTable {
	return sharedTable{ChangesRoot, "changes", changesColumns(), changesPartitions()}
}

func publicationsTable() sharedTable {
	return sharedTable{PublicationsRoot, "publications", publicationColumns(), nil}
}

// shared brings a table of all datasets up to date by one commit. compute returns what is new, and
// nothing when nothing is.
func (p *Projector) shared(ctx context.Context, t sharedTable, compute func(ctx context.Context, l log, found listing) ([]action, error)) (Outcome, error) {
	l := log{store: p.Store, root: t.root}
	outcome := Outcome{Root: t.root, Commit: -1}
	found, err := l.commit(ctx, func(ctx context.Context, found listing) ([]action, error) {
		changes, err := compute(ctx, l, found)
		outcome.Written = len(changes) > 0
		if err != nil || len(changes) == 0 {
			return nil, err
		}
		head, err := p.headOfShared(ctx, l, found, t)
		return append(head, changes...), err
	})
	if err != nil {
		return outcome, fmt.Errorf("project table %s: %w", t.root, err)
	}
	outcome.Commit = found.head
	if outcome.Written {
		outcome.Warning = l.checkpointIfDue(ctx, found)
	}
	return outcome, nil
}

// headOfShared returns what stands before the changes of a commit: who made it, and the table's columns
// when they are new or others than before.
func (p *Projector) headOfShared(ctx context.Context, l log, found listing, t sharedTable) ([]action, error) {
	_, before, err := l.headOf(ctx, found)
	if err != nil {
		return nil, err
	}
	after, meta, err := p.stampOf(before, t.name, description{columns: t.columns}, t.partitions)
	if err != nil {
		return nil, err
	}
	actions := []action{{CommitInfo: p.info(p.Now(), found.head < 0, after)}}
	if found.head < 0 {
		protocol := protocolFor(t.columns, false)
		actions = append(actions, action{Protocol: &protocol})
	}
	if found.head < 0 || after.Columns != before.Columns {
		actions = append(actions, action{MetaData: meta})
	}
	return actions, nil
}

// recordsID is under which a table of all datasets keeps how many records of a dataset it knows.
func recordsID(dataset string) string { return appID(dataset) + "#records" }

// txns say how far a table of all datasets has come with one of them.
func (p *Projector) txns(dataset string, version, records int64) []action {
	now := millis(p.Now())
	return []action{
		{Txn: &txn{AppID: appID(dataset), Version: version, LastUpdated: now}},
		{Txn: &txn{AppID: recordsID(dataset), Version: records, LastUpdated: now}},
	}
}
