package interleavings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func projectorOf(m *buckettest.Machine, store bucket.Store) *tables.Projector {
	return &tables.Projector{Store: store, Footers: tables.StoredFooters{Reader: store}, Now: m.Now, NewID: m.Name, Engine: "mirror test"}
}

// projecting brings the table of attachments up to date, as a pass does that moved the pointer before.
func projecting(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	_, err := projectorOf(m, store).Attachments(ctx, permits)
	return err
}

// rollbackWithTables moves readers, and their tables.
func rollbackWithTables(n manifest.Number) command {
	return func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
		if err := rollbackTo(n)(ctx, m, store); err != nil {
			return err
		}
		return projecting(ctx, m, store)
	}
}

// publishing writes the table of publications, as a pass does at its end.
func publishing(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	pointer, _, err := state.Read[state.Pointer](ctx, store, manifest.PointerKey(permits))
	if err != nil {
		return err
	}
	_, err = projectorOf(m, store).Publications(ctx, []tables.Progress{tables.ProgressOf(pointer, nil)}, m.Name())
	return err
}

// shownBy returns what a commit of ours says of itself.
func shownBy(commit []byte) (shown struct {
	Version manifest.Number `json:"ploti_version"`
	Move    int64           `json:"move"`
}, err error) {
	line, _, _ := bytes.Cut(commit, []byte("\n"))
	var head struct {
		CommitInfo struct {
			UserMetadata string `json:"userMetadata"`
		} `json:"commitInfo"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return shown, err
	}
	return shown, json.Unmarshal([]byte(head.CommitInfo.UserMetadata), &shown)
}

// neverAhead returns what judges states as inOrder does, and each commit of the table besides: it follows
// the one before it, and no move of the pointer that was not made yet.
func neverAhead() func(now *buckettest.Memory, key string, before []byte) error {
	ordered := inOrder()
	log := tables.AttachmentRoot(permits) + "_delta_log/"
	return func(now *buckettest.Memory, key string, before []byte) error {
		if err := ordered(now, key, before); err != nil || !strings.HasPrefix(key, log) {
			return err
		}
		pointer, err := pointerOf(now)
		if err != nil {
			return err
		}
		last := int64(0)
		for _, commit := range now.Under(log) {
			shown, err := shownBy(now.Bytes(commit))
			if err != nil {
				return fmt.Errorf("%s: %w", commit, err)
			}
			if shown.Move <= last || shown.Move > pointer.Move {
				return fmt.Errorf("%s shows move %d after %d, the pointer made %d", commit, shown.Move, last, pointer.Move)
			}
			last = shown.Move
		}
		return nil
	}
}

// tableShows wants all to have ended well, and the table to show where the pointer is, without another
// pass.
func tableShows(now *buckettest.Memory, ended []buckettest.Ended) error {
	if err := endedWell(ended); err != nil {
		return err
	}
	pointer, err := pointerOf(now)
	if err != nil {
		return err
	}
	commits := now.Under(tables.AttachmentRoot(permits) + "_delta_log/")
	if len(commits) == 0 {
		return fmt.Errorf("there is no table")
	}
	shown, err := shownBy(now.Bytes(commits[len(commits)-1]))
	if err == nil && (shown.Version != pointer.Version || shown.Move != pointer.Move) {
		err = fmt.Errorf("the table shows version %d by move %d, the pointer is at %d by move %d", shown.Version, shown.Move, pointer.Version, pointer.Move)
	}
	return err
}

// published wants a row for each move, and none twice.
func published(now *buckettest.Memory, ended []buckettest.Ended) error {
	if err := endedWell(ended); err != nil {
		return err
	}
	pointer, err := pointerOf(now)
	if err != nil {
		return err
	}
	seen := map[int64]int{}
	for _, key := range now.Under(tables.PublicationsRoot + "2") {
		rows, err := tables.ReadPublications(context.Background(), now, key)
		if err != nil {
			return err
		}
		listed := false
		for _, commit := range now.Under(tables.PublicationsRoot + "_delta_log/") {
			listed = listed || bytes.Contains(now.Bytes(commit), []byte(strings.TrimPrefix(key, tables.PublicationsRoot)))
		}
		for _, row := range rows {
			if listed {
				seen[row.Move]++
			}
		}
	}
	for move := int64(1); move <= pointer.Move; move++ {
		if seen[move] != 1 {
			return fmt.Errorf("move %d has %d rows", move, seen[move])
		}
	}
	return nil
}

func tableScenarios(t *testing.T) map[string]buckettest.Scenario {
	versions := []staticVersion{v(1, 1, "a"), v(2, 1, "b"), v(3, 1, "c")}
	three := beginning(t, versions[:1], versions[:2], versions)
	// The table shows version 1, and the pointer has moved on: who is led back to 1 finds its files listed.
	behind := beginning(t, versions[:1])
	now := &tables.Projector{Store: behind, Footers: tables.StoredFooters{Reader: behind}, Now: later, NewID: func() string { return "table" }}
	if _, err := now.Attachments(t.Context(), permits); err != nil {
		t.Fatal(err)
	}
	if err := nextPass(behind, versions[:2]...); err != nil {
		t.Fatal(err)
	}
	machine := func(do command) buckettest.Process { return runs("rollback", nil, do) }
	list := map[string]buckettest.Scenario{
		"a table is written while readers are moved back": {Begin: begins(three, runs("pass", nil, projecting), machine(rollbackWithTables(1))),
			Check: neverAhead(), End: tableShows},
		"a table is written while readers are moved back to what it shows": {Begin: begins(behind, runs("pass", nil, projecting), machine(rollbackWithTables(1))),
			Check: neverAhead(), End: tableShows},
		"publications by two": {Begin: begins(three, runs("one", nil, publishing), runs("two", nil, publishing)), Check: inOrder(), End: published},
	}
	if evidence.Long() {
		list["a table is written while readers are moved back twice"] = buckettest.Scenario{Begin: begins(three, runs("pass", nil, projecting),
			machine(func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
				if err := rollbackWithTables(1)(ctx, m, store); err != nil {
					return err
				}
				_, err := mirror.Rollback(ctx, mirror.DecideOptions{Docs: store, Pause: m.Pause, OnMajor: manifest.MajorHold, Now: m.Now,
					Run: m.Name() + "-2", Who: "tester", Tables: projectorOf(m, store)}, permits, 2)
				return err
			})), Check: neverAhead(), End: tableShows, Switches: 4}
	}
	return list
}

func TestInterleavingsOfTables(t *testing.T) {
	interleavings(t, "interleavings-tables", 1, tableScenarios)
}
