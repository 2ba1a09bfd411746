package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/feed/feedsim/records"
)

const (
	largeDataset    = "ds_large"
	largeParts      = 4
	mostRowsMemory  = 512 << 20
	mostTimesDecode = 3
	rowsRounds      = 3
)

// replay: the rows of two large versions, and the changes between them.
func replay(ctx context.Context, s *stage) error {
	large := records.Large{Dataset: largeDataset, Rows: s.pick(5_000_000, 200_000)}
	files, err := s.writeLarge(large)
	if err != nil {
		return err
	}
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		if err := releaseLarge(feed, large, files); err != nil {
			return err
		}
		folder := s.dir + "/bucket"
		if _, err := s.sync(ctx, s.environment(feed), 0, "file://"+folder); err != nil {
			return err
		}
		var ratios []float64
		for range rowsRounds {
			ratio, err := s.replayOnce(ctx, "file://"+folder, large, files)
			if err != nil {
				return err
			}
			ratios = append(ratios, ratio)
		}
		slices.Sort(ratios)
		s.want(ratios[rowsRounds/2] <= mostTimesDecode, "the replay took %.2f times as long as the decoding, the median of %d (%.2f to %.2f)", ratios[rowsRounds/2], rowsRounds, ratios[0], ratios[rowsRounds-1])
		s.invariants(folder)
		return nil
	})
}

// largeFiles are the Parquet files of two versions.
type largeFiles struct {
	snapshots [2][]string
	changes   string
}

func (f largeFiles) all() []string {
	return slices.Concat(f.snapshots[0], f.snapshots[1], []string{f.changes})
}

func (s *stage) writeLarge(large records.Large) (files largeFiles, err error) {
	write := func(name string, into func(w io.Writer) error) (string, error) {
		path := filepath.Join(s.dir, name)
		file, err := os.Create(path)
		if err != nil {
			return "", err
		}
		return path, errors.Join(into(file), file.Close())
	}
	for i := range files.snapshots {
		for part := range int64(largeParts) {
			path, err := write(fmt.Sprintf("snapshot-%d-%d.parquet", i, part), func(w io.Writer) error {
				return large.WriteSnapshot(w, records.Envelope{Dataset: largeDataset, Version: int64(i + 1)}, part, largeParts)
			})
			if err != nil {
				return files, err
			}
			files.snapshots[i] = append(files.snapshots[i], path)
		}
	}
	files.changes, err = write("changes.parquet", func(w io.Writer) error {
		return large.WriteChanges(w, records.Envelope{Dataset: largeDataset, Version: 2})
	})
	return files, err
}

func releaseLarge(feed *feedsim.Feed, large records.Large, files largeFiles) error {
	dataset, err := feed.AddDataset(feedsim.DatasetSpec{ID: largeDataset, Character: feedsim.Plain, NoSource: true})
	if err != nil {
		return err
	}
	if _, err := dataset.ReleaseReady(feedsim.ReadySpec{Schema: large.Schema(), RowCount: large.RowsOf(1), Snapshot: files.snapshots[0]}); err != nil {
		return err
	}
	second := feedsim.ReadySpec{Schema: large.Schema(), RowCount: large.RowsOf(2), Snapshot: files.snapshots[1], Changes: []string{files.changes}}
	second.Added, second.Changed, second.Removed = large.Counts()
	_, err = dataset.ReleaseReady(second)
	return err
}

// replayOnce audits the bucket, decodes the same files by the library alone, and returns how many times as long
// the replay took.
func (s *stage) replayOnce(ctx context.Context, bucket string, large records.Large, files largeFiles) (float64, error) {
	e, err := s.mirror(ctx, s.environment(nil), "verify", "--level", "rows", "--output", "json", "--log-level", "warn", "--bucket", bucket)
	if err != nil {
		return 0, err
	}
	r := e.report.Rows
	if e.exit != 0 || len(r.Versions) != 2 || !r.Versions[1].Replayed || r.Versions[1].Rows != large.RowsOf(2) {
		return 0, fmt.Errorf("verify --level rows: exit %d, %+v: %s", e.exit, r, e.complaint())
	}
	took := r.Versions[1].Seconds
	began, values := time.Now(), int64(0)
	for _, path := range files.all() {
		n, err := decodeFile(path)
		if err != nil {
			return 0, fmt.Errorf("decode %s: %w", filepath.Base(path), err)
		}
		values += n
	}
	decoding := time.Since(began).Seconds()
	s.want(e.peakRSS > 0 && e.peakRSS <= mostRowsMemory, "%d rows and %d changes replayed on %d rows in %.2fs (%.1fs with reading and hashing); parquet-go decodes the %d values of the same files in %.2fs; peak anonymous memory %s, temporary files %s",
		r.Versions[1].Rows, r.Versions[1].Changes, large.RowsOf(1), took, e.wall.Seconds(), values, decoding, size(e.peakRSS), size(r.DiskBytes))
	return took / decoding, nil
}

// decodeFile reads every value of a file the way that takes the library least time: column by column, page by
// page.
func decodeFile(path string) (values int64, err error) {
	disk, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer disk.Close() //nolint:errcheck // only read from
	info, err := disk.Stat()
	if err != nil {
		return 0, err
	}
	file, err := parquet.OpenFile(disk, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
	if err != nil {
		return 0, err
	}
	buffer := make([]parquet.Value, 1024)
	for _, group := range file.RowGroups() {
		for _, chunk := range group.ColumnChunks() {
			pages := chunk.Pages()
			n, err := decodePages(pages, buffer)
			if err = errors.Join(err, pages.Close()); err != nil {
				return 0, err
			}
			values += n
		}
	}
	return values, nil
}

func decodePages(pages parquet.Pages, buffer []parquet.Value) (values int64, err error) {
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		reader := page.Values()
		for err == nil {
			var n int
			n, err = reader.ReadValues(buffer)
			values += int64(n)
		}
		parquet.Release(page)
		if !errors.Is(err, io.EOF) {
			return values, err
		}
	}
}
