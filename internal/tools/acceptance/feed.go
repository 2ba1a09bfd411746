package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// withFeed runs use with a simulated feed of its own.
func withFeed(options feedsim.Options, use func(*feedsim.Feed) error) error {
	options.Seed = 2026
	feed, err := feedsim.Start(options)
	if err != nil {
		return fmt.Errorf("start simulated feed: %w", err)
	}
	err = use(feed)
	if closed := feed.Close(); err == nil {
		err = closed
	}
	return err
}

// three adds datasets of different character with two versions each.
func three(feed *feedsim.Feed) (map[string]*feedsim.Dataset, error) {
	datasets := map[string]*feedsim.Dataset{}
	for id, character := range map[string]feedsim.Character{"ds_permits": feedsim.Points, "ds_parcels": feedsim.Polygons, "ds_zoning": feedsim.Archive} {
		dataset, err := feed.AddDataset(feedsim.DatasetSpec{ID: id, Character: character, Rows: 20})
		if err != nil {
			return nil, fmt.Errorf("add dataset: %w", err)
		}
		for range 2 {
			if _, err := dataset.Release(feedsim.ReleaseSpec{}); err != nil {
				return nil, fmt.Errorf("release: %w", err)
			}
		}
		datasets[id] = dataset
	}
	return datasets, nil
}

// most returns the greatest count and one name that has it.
func most(counts map[string]int) (int, string) {
	greatest, name := 0, ""
	for key, count := range counts {
		if count > greatest {
			greatest, name = count, key
		}
	}
	return greatest, name
}

// wantOnce wants every finished file fetched once, the rules of the links host kept.
func (s *stage) wantOnce(feed *feedsim.Feed) {
	completed := feed.Completed()
	count, name := most(completed)
	if count == 1 {
		name = "" // any of them
	}
	s.want(count == 1, "%d files fetched, each at most %d time(s) %s", len(completed), count, name)
	violations := feed.ViolationsSeen()
	s.want(len(violations) == 0, "%d requests broke a rule of the links host", len(violations))
}

// invariants wants a folder to keep every promise, read from its files alone.
func (s *stage) invariants(folder string) {
	violations := invariant.Check(invariant.Folder(folder))
	s.want(len(violations) == 0, "invariant checker: %d violations%s", len(violations), firstOf(violations))
}

func firstOf(violations []invariant.Violation) string {
	if len(violations) == 0 {
		return ""
	}
	return " (" + violations[0].String() + ")"
}

// files returns the sizes of all regular files below a folder.
func files(folder string) (map[string]int64, error) {
	found := map[string]int64{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		found[filepath.ToSlash(relative)] = info.Size()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	return found, nil
}

// isData says whether a key holds bytes of the feed and not a document of the mirror.
func isData(key string) bool {
	for _, prefix := range []string{"snapshot/", "changes/", "id_map/", "attachments/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return strings.HasPrefix(key, "versions/") && (strings.Contains(key, "/files/") || strings.HasSuffix(key, "/schema.json"))
}
