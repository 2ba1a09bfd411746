package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// terminated: SIGTERM in mid-run, and the pass behind it.
func terminated(ctx context.Context, s *stage) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		spec := feedsim.BulkSpec{Dataset: "ds_stopped", Parts: 2, PartBytes: 64 << 20, Attachments: 200, AttachmentBytes: 32 << 10}
		if _, err := feed.AddBulk(spec); err != nil {
			return err
		}
		// The parts would take minutes, the attachments some 20 s.
		feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Match: func(r feedsim.Request) bool { return strings.HasPrefix(r.File, "snapshot/") }, Times: feedsim.Always}, feedsim.SlowDrip(256<<10))
		feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Times: feedsim.Always}, feedsim.SlowDrip(32<<10))
		folder := s.dir + "/bucket"
		env := s.environment(feed)
		args := []string{"sync", "--output", "json", "--log-level", "warn", "--transfer-concurrency", "8", "--bucket", "file://" + folder}
		p, err := s.start(ctx, env, args...)
		if err != nil {
			return err
		}
		if err := finished(ctx, feed, 30); err != nil {
			_ = p.command.Process.Kill()
			_, _ = p.wait() // err is the reason
			return err
		}
		s.command("kill -TERM PID")
		killed := time.Now()
		if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("send SIGTERM: %w", err)
		}
		e, err := p.wait()
		if err != nil {
			return err
		}
		took := time.Since(killed)
		s.want(e.exit == 143 && took <= 10*time.Second, "SIGTERM after %d files: exit %d after %s, status %q", 30, e.exit, took.Round(10*time.Millisecond), e.report.Status)
		return s.afterSignal(ctx, feed, env, folder)
	})
}

// finished waits until the feed has sent so many files to their end.
func finished(ctx context.Context, feed *feedsim.Feed, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for len(feed.Completed()) < count {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d files: %w", count, ctx.Err())
		}
	}
	return nil
}

// afterSignal looks at what was saved and finishes the pass.
func (s *stage) afterSignal(ctx context.Context, feed *feedsim.Feed, env []string, folder string) error {
	before, err := files(folder)
	if err != nil {
		return err
	}
	held := map[string]bool{}
	shards := 0
	for key := range before {
		if sum, ok := strings.CutPrefix(key, "attachments/sha256/"); ok {
			held["document:"+sum[3:]] = true
		}
		if strings.HasPrefix(key, "_mirror/shards/") {
			shards++
		}
	}
	s.want(len(held) >= 20 && shards == 1, "%d finished attachments and %d document of state stand", len(held), shards)
	s.invariants(folder)
	feed.ClearScript()
	feed.ResetLog()
	e, err := s.sync(ctx, env, 0, "file://"+folder, "--transfer-concurrency", "8")
	if err != nil {
		return err
	}
	again := 0
	for _, event := range feed.Log() {
		if event.Side == feedsim.SideLinks && held[event.File] {
			again++
		}
	}
	s.want(e.exit == 0 && again == 0 && e.report.Versions.Published == 1, "next pass at once: exit %d, %d version published, %d files copied, %d present, %d finished files asked for again",
		e.exit, e.report.Versions.Published, e.report.Files.Copied, e.report.Files.Present, again)
	s.wantOnce(feed)
	s.invariants(folder)
	return nil
}
