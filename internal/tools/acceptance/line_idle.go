package main

import (
	"context"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// idlePasses are measured, so that one figure is no chance.
const idlePasses = 3

// idle: what a pass costs when nothing was released.
func idle(ctx context.Context, s *stage) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		if _, err := three(feed); err != nil {
			return err
		}
		folder := s.dir + "/bucket"
		env := s.environment(feed)
		if _, err := s.sync(ctx, env, 0, "file://"+folder); err != nil {
			return err
		}
		var slowest, fastest, wall float64
		for i := range idlePasses {
			feed.ResetLog()
			e, err := s.sync(ctx, env, 0, "file://"+folder)
			if err != nil {
				return err
			}
			q := e.report.Requests
			asked := len(feed.Log())
			s.want(q.Feed == 1 && asked == 1, "pass %d: %d feed request(s), the feed saw %d", i+1, q.Feed, asked)
			s.want(q.BucketRead == 2 && q.BucketWrite <= 1 && q.BucketList == 0, "pass %d: %d bucket reads, %d writes, %d lists", i+1, q.BucketRead, q.BucketWrite, q.BucketList)
			slowest = max(slowest, e.report.Seconds)
			wall = max(wall, e.wall.Seconds())
			if i == 0 || e.report.Seconds < fastest {
				fastest = e.report.Seconds
			}
		}
		s.want(slowest < 0.1, "%d passes took %.1f to %.1f ms inside the process", idlePasses, fastest*1000, slowest*1000)
		s.note("the whole process took at most %s", time.Duration(wall*float64(time.Second)).Round(time.Millisecond))
		s.invariants(folder)
		return nil
	})
}
