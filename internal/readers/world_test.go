//go:build readers

package readers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// runLimit bounds one run of the program on a busy machine.
const runLimit = 2 * time.Minute

// world is a simulated feed, a bucket, and the program between them.
type world struct {
	feed  *feedsim.Feed
	clock *feedsim.Clock
	place place
}

// newWorld starts a feed before an empty bucket. It lives until stop.
func newWorld(t *testing.T, at place) (w *world, stop func(*testing.T)) {
	t.Helper()
	clock := feedsim.NewClock(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)) // a Monday
	feed, err := feedsim.Start(feedsim.Options{Seed: 41, Clock: clock, Retention: 30 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return &world{feed: feed, clock: clock, place: at}, func(t *testing.T) {
		t.Helper()
		if err := feed.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (w *world) dataset(t *testing.T, spec feedsim.DatasetSpec) *feedsim.Dataset {
	t.Helper()
	spec.Place = "fl-county-orange"
	d, err := w.feed.AddDataset(spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// release releases a version an hour after what was before it.
func (w *world) release(t *testing.T, d *feedsim.Dataset, spec feedsim.ReleaseSpec) int64 {
	t.Helper()
	w.clock.Advance(time.Hour)
	n, err := d.Release(spec)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mirror runs the program and wants exit code 0.
func (w *world) mirror(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs the program. The error says what it printed.
func (w *world) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	var out, text bytes.Buffer
	command.Stdout, command.Stderr = &out, &text
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + workshop, "TMPDIR=" + workshop,
		"PLOTI_API_KEY=" + w.feed.Key(), "MIRROR_FEED_URL=" + w.feed.URL(), "MIRROR_BUCKET=" + w.place.bucket,
		"MIRROR_LOG_LEVEL=warn", "MIRROR_LOG_FORMAT=json"}, w.place.env...)
	if args[0] == "ddl" || args[0] == "route" { // they know no feed
		command.Env = slices.DeleteFunc(command.Env, func(line string) bool {
			return strings.HasPrefix(line, "PLOTI_") || strings.HasPrefix(line, "MIRROR_FEED_")
		})
	}
	if err := errors.Join(command.Run(), ctx.Err()); err != nil {
		return "", fmt.Errorf("mirror %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), text.String())
	}
	return out.String(), nil
}

// check wants the invariants of the bucket to hold.
func check(t *testing.T, root string) {
	t.Helper()
	for _, violation := range invariant.Check(invariant.Folder(root)) {
		t.Errorf("bucket: %s", violation)
	}
	for _, late := range invariant.Lagging(invariant.Folder(root)) {
		t.Errorf("table: %s", late)
	}
}
