package buckettest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
)

// writer creates keys one after the other.
func writer(name string, keys ...string) buckettest.Process {
	return buckettest.Process{Name: name, Run: func(ctx context.Context, m *buckettest.Machine) error {
		for _, key := range keys {
			if _, err := bucket.CreateDocument(ctx, m.Store(), key, []byte(name)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// adder adds one to a number by reading and swapping it, again after a conflict.
func adder(name string) buckettest.Process {
	return buckettest.Process{Name: name, Run: func(ctx context.Context, m *buckettest.Machine) error {
		for {
			var count int
			raw, info, err := bucket.ReadAll(ctx, m.Store(), "count", 100)
			if err == nil {
				_, err = fmt.Sscan(string(raw), &count)
			}
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if _, err = m.Store().Swap(ctx, "count", info.Tag, fmt.Append(nil, count+1)); !fault.Is(err, fault.Conflict) {
				return err
			}
		}
	}}
}

func begin(processes ...buckettest.Process) func() (*buckettest.Memory, []buckettest.Process) {
	return func() (*buckettest.Memory, []buckettest.Process) { return buckettest.NewMemory(), processes }
}

func TestEveryInterleavingIsExploredOnce(t *testing.T) {
	orders := map[string]bool{}
	got := buckettest.Explore(t, buckettest.Scenario{
		Begin: begin(writer("a", "a1", "a2"), writer("b", "b1", "b2")),
		Check: func(now *buckettest.Memory, _ string, _ []byte) error {
			orders[strings.Join(now.Keys(), " ")] = true
			return nil
		},
	})
	// Two processes of two steps meet in 3 x 3 states, on 6 ways.
	if got.States != 9 || got.StandFor != 6 || !got.Whole || got.Finding != nil || len(orders) != 8 || got.Longest != 4 {
		t.Errorf("explored %+v and met %d kinds of buckets", got, len(orders))
	}
}

func TestOneSwitchAndNoMore(t *testing.T) {
	ends := 0
	got := buckettest.Explore(t, buckettest.Scenario{Begin: begin(writer("a", "a1", "a2"), writer("b", "b1", "b2")), Switches: 1,
		End: func(*buckettest.Memory, []buckettest.Ended) error { ends++; return nil }})
	if got.States >= 2*9 || got.Finding != nil || !got.Whole || ends == 0 {
		t.Errorf("explored %+v", got)
	}
}

func counts(want string) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		for _, e := range ended {
			if e.Err != nil && !e.Crashed {
				return fmt.Errorf("%s ended with %w", e.Name, e.Err)
			}
		}
		if got := string(now.Bytes("count")); got != want {
			return fmt.Errorf("the count is %s, want %s", got, want)
		}
		return nil
	}
}

func TestALostUpdateIsFoundWhereConditionsAreIgnored(t *testing.T) {
	s := buckettest.Scenario{Begin: begin(adder("a"), adder("b"), adder("c")), End: counts("3")}
	if got := buckettest.Explore(t, s); got.Finding != nil || !got.Whole || got.States < 20 {
		t.Errorf("explored %+v", got)
	}
	s.Beneath = func(store bucket.Store) bucket.Store { return &buckettest.IgnoreConditions{Store: store} }
	got := buckettest.Explore(t, s)
	if got.Finding == nil || len(got.Finding.Steps) != 6 || !strings.Contains(got.Finding.String(), "the count is") {
		t.Errorf("explored %+v, found %v", got, got.Finding)
	}
}

// TestCrashesAndLostAnswersAreTriedEverywhere: the adder takes a lost answer for a failure, and a
// crash of one leaves the work of the other.
func TestCrashesAndLostAnswersAreTriedEverywhere(t *testing.T) {
	lost := buckettest.Explore(t, buckettest.Scenario{Begin: begin(adder("a")), End: counts("1"), LostAnswers: 1})
	if lost.Finding == nil || !strings.Contains(lost.Finding.String(), "the answer is lost") {
		t.Errorf("found %v", lost.Finding)
	}
	met := map[string]int{}
	crashed := buckettest.Explore(t, buckettest.Scenario{Begin: begin(adder("a"), adder("b")), Crashes: 1,
		End: func(now *buckettest.Memory, ended []buckettest.Ended) error {
			for _, e := range ended {
				if e.Crashed != errors.Is(e.Err, buckettest.ErrCrashed) {
					return fmt.Errorf("%+v", e)
				}
			}
			met[string(now.Bytes("count"))]++
			return nil
		}})
	again := buckettest.Explore(t, buckettest.Scenario{Begin: begin(adder("a"), writer("b", "b1")), Crashes: 1, Restart: true, End: counts("1")})
	if again.Finding != nil || again.States < 10 {
		t.Errorf("explored %+v, found %v", again, again.Finding)
	}
	if crashed.Finding != nil || met["2"] == 0 || met["1"] == 0 || len(met) != 2 {
		t.Errorf("found %v, counts %v", crashed.Finding, met)
	}
}

// TestTimePassesOnlyWhereItMay: a process that pauses is overtaken, or wakes up between any two steps
// of the other.
func TestTimePassesOnlyWhereItMay(t *testing.T) {
	sleeper := buckettest.Process{Name: "sleeper", Run: func(ctx context.Context, m *buckettest.Machine) error {
		if err := m.Pause(ctx, time.Minute); err != nil {
			return err
		}
		_, err := bucket.CreateDocument(ctx, m.Store(), "woken", []byte(m.Now().Format(time.TimeOnly)))
		return err
	}}
	for delays, want := range map[int]int{0: 1, 1: 3} {
		met := map[string]bool{}
		got := buckettest.Explore(t, buckettest.Scenario{Begin: begin(writer("a", "a1", "a2"), sleeper), Delays: delays,
			Check: func(now *buckettest.Memory, key string, _ []byte) error {
				if key == "woken" {
					met[strings.Join(now.Keys(), " ")+string(now.Bytes(key))] = true
				}
				return nil
			}})
		if got.Finding != nil || len(met) != want || !met["a1 a2 woken06:01:00"] {
			t.Errorf("%d delays: explored %+v, met %v", delays, got, met)
		}
	}
}

// TestAReadOutOfTurnIsTakenBackWhenItsKeyIsWritten: the first schedules do not show that b writes
// what a reads.
func TestAReadOutOfTurnIsTakenBackWhenItsKeyIsWritten(t *testing.T) {
	met := map[string]bool{}
	reader := buckettest.Process{Name: "reader", Run: func(ctx context.Context, m *buckettest.Machine) error {
		_, err := m.Store().Stat(ctx, "b1")
		seen := "present"
		if fault.Is(err, fault.NotFound) {
			seen = "absent"
		}
		met[seen] = true
		_, err = bucket.CreateDocument(ctx, m.Store(), "seen", []byte(seen))
		return err
	}}
	got := buckettest.Explore(t, buckettest.Scenario{Begin: begin(reader, writer("b", "b1"))})
	if got.Finding != nil || !met["present"] || !met["absent"] {
		t.Errorf("explored %+v, met %v", got, met)
	}
}
