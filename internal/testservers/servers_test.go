package testservers_test

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/testservers"
)

var servers = testservers.New()

func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }

// racers is how many writers meet in a race.
const racers = 16

// race calls write for many writers at once and returns the one that got 200. It fails the test
// unless exactly one did and all others were refused with 409 or 412.
func race(t *testing.T, write func(writer int) int) int {
	t.Helper()
	var (
		group    sync.WaitGroup
		statuses [racers]int
	)
	gate := make(chan struct{})
	for i := range racers {
		group.Go(func() {
			<-gate
			statuses[i] = write(i)
		})
	}
	close(gate)
	group.Wait()
	winner, winners := 0, 0
	for i, status := range statuses {
		switch status {
		case http.StatusOK:
			winner = i
			winners++
		case http.StatusConflict, http.StatusPreconditionFailed:
		default:
			t.Errorf("writer %d: status %d, want 409 or 412", i, status)
		}
	}
	if winners != 1 {
		t.Errorf("%d writers won: %v", winners, statuses)
	}
	return winner
}

// racerBody is what a writer writes.
func racerBody(writer int) string { return strings.Repeat(string(rune('a'+writer)), 4096) }

func TestBucketsDiffer(t *testing.T) {
	gcs := servers.FakeGCS(t)
	if first, second := gcs.NewBucket(t), gcs.NewBucket(t); first == second {
		t.Errorf("two buckets are called %q", first)
	}
	if again := servers.FakeGCS(t); again.Endpoint != gcs.Endpoint {
		t.Errorf("a second server at %s beside %s", again.Endpoint, gcs.Endpoint)
	}
}
