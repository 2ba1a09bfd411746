package main

import (
	"context"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

// memoryLimit is the greatest peak of anonymous memory that a pass may have, bytes.
const memoryLimit = 120 << 20

// namesPerCall is how many names a call of /links may ask for.
const namesPerCall = 200

// bulk: many small files and some large ones, in little memory.
func bulk(ctx context.Context, s *stage) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		spec := feedsim.BulkSpec{Dataset: "ds_bulk", Parts: 8, PartBytes: s.pick(256<<20, 16<<20), Attachments: int(s.pick(20_000, 2_000)), AttachmentBytes: 2 << 10}
		if _, err := feed.AddBulk(spec); err != nil {
			return err
		}
		s.note("%d attachments of %s, %d parts of %s", spec.Attachments, size(spec.AttachmentBytes), spec.Parts, size(spec.PartBytes))
		s.note("into a folder:")
		folder := s.dir + "/bucket"
		if err := s.bulkInto(ctx, feed, spec, s.environment(feed), "file://"+folder); err != nil {
			return err
		}
		s.invariants(folder)
		return withVersity(func(server testservers.S3) error {
			s.note("into versitygw:")
			there, err := newPlace(ctx, server, "bulk", "p/")
			if err != nil {
				return err
			}
			env := s.environment(feed, credentials(server)...)
			if err := s.bulkInto(ctx, feed, spec, env, there.url(server.Endpoint)); err != nil {
				return err
			}
			return s.verify(ctx, env, there.url(server.Endpoint), "bytes")
		})
	})
}

func (s *stage) bulkInto(ctx context.Context, feed *feedsim.Feed, spec feedsim.BulkSpec, env []string, bucket string) error {
	feed.ResetLog()
	e, err := s.sync(ctx, env, 0, bucket)
	if err != nil {
		return err
	}
	s.want(e.exit == 0 && e.report.Files.Copied >= int64(spec.Attachments+spec.Parts), "exit %d, %d files copied in %s", e.exit, e.report.Files.Copied, e.wall.Round(100*time.Millisecond))
	s.memory(e)
	s.wantOnce(feed)
	names := spec.Attachments + spec.Parts + 2 // schema and manifest
	most := (names+namesPerCall-1)/namesPerCall + 1
	s.want(feed.LinkCalls() <= most, "/links called %d times, at most %d allowed for %d names and one version", feed.LinkCalls(), most, names)
	return nil
}

// memory wants the peak of anonymous memory within its limit.
func (s *stage) memory(e ended) {
	s.want(e.peakRSS > 0 && e.peakRSS <= memoryLimit, "peak anonymous memory %s", size(e.peakRSS))
}
