package main

import (
	"context"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// links: links that live a few seconds against a pass of 40 s.
func links(ctx context.Context, s *stage) error {
	const fileBytes = 64 << 10
	life := 5 * time.Second
	attachments := int(s.pick(290, 70))
	return withFeed(feedsim.Options{LinkLifetime: life}, func(feed *feedsim.Feed) error {
		if _, err := feed.AddBulk(feedsim.BulkSpec{Dataset: "ds_slow", Parts: 8, PartBytes: fileBytes, Attachments: attachments, AttachmentBytes: fileBytes}); err != nil {
			return err
		}
		// One worker stalls in mid-file, for good; everybody else gets about 60 KiB/s.
		stalled := feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Nth: 20, Match: func(r feedsim.Request) bool { return r.File != "manifest.json" }},
			feedsim.Stall(fileBytes/2, nil, 0))
		feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Times: feedsim.Always}, feedsim.SlowDrip(60<<10))
		e, err := s.sync(ctx, s.environment(feed), 0, "file://"+s.dir+"/bucket", "--transfer-concurrency", "8", "--transfer-idle-timeout", "10s")
		if err != nil {
			return err
		}
		s.want(e.exit == 0 && e.report.Files.Failed == 0, "exit %d, %d files copied, %d failed", e.exit, e.report.Files.Copied, e.report.Files.Failed)
		s.want(e.wall >= time.Duration(s.pick(35, 8))*time.Second, "the pass took %s, links lived %s", e.wall.Round(100*time.Millisecond), life)
		s.want(stalled() == 1, "%d download stalled in mid-file", stalled())
		s.wantOnce(feed)
		s.want(len(feed.Completed()) >= attachments+8, "%d names in all", len(feed.Completed()))
		s.freshLinks(feed)
		s.invariants(s.dir + "/bucket")
		return nil
	})
}

// freshLinks wants the version read once and no name signed more than twice.
func (s *stage) freshLinks(feed *feedsim.Feed) {
	reads := feed.VersionReads("ds_slow", 1)
	s.want(reads == 1, "version read %d time(s)", reads)
	signed := feed.SignedNames()
	count, _ := most(signed)
	s.want(count <= 2 && feed.LinkCalls() > 0, "%d calls of /links for %d names, each signed at most %d time(s)", feed.LinkCalls(), len(signed), count)
	refused := 0
	for _, event := range feed.Log() {
		if event.Side == feedsim.SideLinks && event.Status >= 400 {
			refused++
		}
	}
	s.note("%d requests with an expired link were refused", refused)
}
