package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

// realParquet: real Parquet files of several writers travel byte for byte.
func realParquet(ctx context.Context, s *stage) error {
	paths, err := filepath.Glob(filepath.Join(s.root, "internal", "parquetinfo", "testdata", "*.parquet"))
	if err != nil {
		return fmt.Errorf("find Parquet files: %w", err)
	}
	content := map[string][]byte{}
	var extra []feedsim.ExtraFile
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read Parquet file: %w", err)
		}
		name := "samples/" + filepath.Base(path)
		content[name] = data
		extra = append(extra, feedsim.ExtraFile{Path: name, Data: data})
	}
	s.want(len(content) > 0, "%d files of internal/parquetinfo/testdata, as files of a version", len(content))
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		dataset, err := feed.AddDataset(feedsim.DatasetSpec{ID: "ds_real", Character: feedsim.Plain})
		if err != nil {
			return err
		}
		if _, err := dataset.Release(feedsim.ReleaseSpec{Extra: extra}); err != nil {
			return err
		}
		folder := s.dir + "/bucket"
		if _, err := s.sync(ctx, s.environment(feed), 0, "file://"+folder); err != nil {
			return err
		}
		s.same("folder", content, func(key string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, filepath.FromSlash(key))) })
		s.invariants(folder)
		return withVersity(func(server testservers.S3) error {
			there, err := newPlace(ctx, server, "real", "")
			if err != nil {
				return err
			}
			if _, err := s.sync(ctx, s.environment(feed, credentials(server)...), 0, there.url(server.Endpoint)); err != nil {
				return err
			}
			s.same("versitygw", content, func(key string) ([]byte, error) { return there.get(ctx, key) })
			return nil
		})
	})
}

// same wants each file in the bucket as it was.
func (s *stage) same(name string, content map[string][]byte, read func(string) ([]byte, error)) {
	equal, total := 0, 0
	for path, data := range content {
		got, err := read("versions/ds_real/0000000001/files/" + path)
		if err != nil || !bytes.Equal(got, data) {
			s.want(false, "%s: %s differs (%d bytes, not %d) %v", name, path, len(got), len(data), err)
			continue
		}
		equal++
		total += len(data)
	}
	s.want(equal == len(content), "%s: %d of %d byte for byte, %d bytes", name, equal, len(content), total)
}
