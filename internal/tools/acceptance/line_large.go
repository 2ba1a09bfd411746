package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

// small is what documents and the rows of a large dataset may weigh, bytes: less is left by chance,
// more is a remnant of a large file.
const small = 1 << 20

// withLarge runs use with a feed of one dataset with a 6 GiB original.
func (s *stage) withLarge(use func(*feedsim.Feed, int64) error) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		bytes := s.pick(6<<30, 1280<<20) // both go in parts on S3
		if _, err := feed.AddBulk(feedsim.BulkSpec{Dataset: "ds_archive", OriginalBytes: bytes}); err != nil {
			return err
		}
		return use(feed, bytes)
	})
}

// largeFolder: a large object into a folder, wrong at first.
func largeFolder(ctx context.Context, s *stage) error {
	return s.withLarge(func(feed *feedsim.Feed, bytes int64) error {
		folder := s.dir + "/bucket"
		left := func() (int64, int, error) {
			weight, err := weigh(folder)
			return weight, 0, err
		}
		if err := s.large(ctx, feed, bytes, s.environment(feed), "file://"+folder, left); err != nil {
			return err
		}
		s.invariants(folder)
		return nil
	})
}

// largeS3: the same through versitygw.
func largeS3(ctx context.Context, s *stage) error {
	return s.withLarge(func(feed *feedsim.Feed, bytes int64) error {
		return withVersity(func(server testservers.S3) error {
			there, err := newPlace(ctx, server, "large", "p/")
			if err != nil {
				return err
			}
			left := func() (int64, int, error) {
				open, err := there.uploads(ctx)
				if err != nil {
					return 0, 0, err
				}
				weight, err := weighServers(s.work)
				return weight, open, err
			}
			env := s.environment(feed, credentials(server)...)
			if err := s.large(ctx, feed, bytes, env, there.url(server.Endpoint), left); err != nil {
				return err
			}
			return s.verify(ctx, env, there.url(server.Endpoint), "bytes")
		})
	})
}

// large copies an original whose last byte is wrong, then the right one. left says how many bytes
// and open uploads the store holds.
func (s *stage) large(ctx context.Context, feed *feedsim.Feed, bytes int64, env []string, bucket string, left func() (int64, int, error)) error {
	feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: "original", Times: feedsim.Always}, feedsim.FlipByte(-1))
	e, err := s.sync(ctx, env, 1, bucket, "--transfer-attempts", "1")
	if err != nil {
		return err
	}
	sentBytes := int64(0)
	for _, event := range feed.Log() {
		if event.File == "original" {
			sentBytes += event.Sent
		}
	}
	s.want(e.exit == 1 && sentBytes >= bytes, "last byte flipped: exit %d after %s sent, in %s: %s", e.exit, size(sentBytes), e.wall.Round(100*time.Millisecond), e.complaint())
	weight, open, err := left()
	if err != nil {
		return err
	}
	s.want(weight < small && open == 0, "left behind: %s in the whole store, staging files included; %d open uploads", size(weight), open)
	s.memory(e)
	feed.ClearScript()
	feed.ResetLog()
	e, err = s.sync(ctx, env, 0, bucket)
	if err != nil {
		return err
	}
	weight, open, err = left()
	if err != nil {
		return err
	}
	s.want(e.exit == 0 && e.report.Versions.Published == 1, "the right bytes: exit %d, %d version published, %s in %s", e.exit, e.report.Versions.Published, size(bytes), e.wall.Round(100*time.Millisecond))
	s.want(weight >= bytes && weight < bytes+small && open == 0, "the store holds %s; %d open uploads", size(weight), open)
	s.memory(e)
	s.wantOnce(feed)
	return nil
}

// weigh adds up all regular files below a folder.
func weigh(folder string) (int64, error) {
	found, err := files(folder)
	total := int64(0)
	for _, size := range found {
		total += size
	}
	return total, err
}

// weighServers adds up what the servers below a folder store, wherever they put it.
func weighServers(work string) (int64, error) {
	folders, err := filepath.Glob(filepath.Join(work, "feedmirror-versitygw-*", "data"))
	if err != nil || len(folders) != 1 {
		return 0, fmt.Errorf("find the data of versitygw in %s: %s %w", work, strings.Join(folders, " "), os.ErrNotExist)
	}
	return weigh(folders[0])
}
