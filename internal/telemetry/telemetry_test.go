package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"feedmirror/internal/fault"
	"feedmirror/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = `key-"with"-quotes/and+more`

func TestGuardLetsNoSecretPass(t *testing.T) {
	for _, format := range []string{"console", "json"} {
		var out bytes.Buffer
		guard := telemetry.NewGuard(&out)
		guard.Hide(secret + "\n")
		guard.Hide("")
		log, err := telemetry.NewLogger(guard, telemetry.LogOptions{Format: format, Level: "trace"})
		if err != nil {
			t.Fatal(err)
		}
		log.Trace().Str("header", "Bearer "+secret).Str("link", "https://h/p?X-Amz-Signature=S3CRET&x=S3CRET").
			Err(fmt.Errorf("get %q: %w", "https://u:S3CRET@h/?sig=S3CRET", errors.New("EOF"))).Msg("sent " + secret)
		text := out.String()
		if strings.Contains(text, "with") || strings.Contains(text, "S3CRET") {
			t.Errorf("%s: a secret passed: %s", format, text)
		}
		if !strings.Contains(text, "https://h/p?X-Amz-Signature=REDACTED") || !strings.Contains(text, "EOF") || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: too much was taken out: %s", format, text)
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("not JSON: %s", text)
		}
	}
}

func TestHideKeyHidesEveryKeyRead(t *testing.T) {
	var out bytes.Buffer
	guard := telemetry.NewGuard(&out)
	keys := []string{"first-key", "second-key"}
	read := guard.HideKey(func() (string, error) { key := keys[0]; keys = keys[1:]; return key, nil })
	for range 2 {
		if _, err := read(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := guard.Write([]byte("first-key, second-key\n")); n != 22 || err != nil || out.String() != "REDACTED, REDACTED\n" {
		t.Errorf("wrote %q, %d, %v", out.String(), n, err)
	}
}

func TestLogFormatsAndLevels(t *testing.T) {
	cases := []struct {
		options telemetry.LogOptions
		isJSON  bool
	}{
		{telemetry.LogOptions{Format: "auto", Level: "info"}, true},
		{telemetry.LogOptions{Format: "auto", Level: "info", Terminal: true}, false},
		{telemetry.LogOptions{Format: "json", Level: "info", Terminal: true}, true},
		{telemetry.LogOptions{Format: "console", Level: "info"}, false},
	}
	for _, c := range cases {
		var out bytes.Buffer
		log, err := telemetry.NewLogger(telemetry.NewGuard(&out), c.options)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug().Msg("hidden")
		log.Info().Msg("shown")
		if json.Valid(out.Bytes()) != c.isJSON || strings.Contains(out.String(), "hidden") || !strings.Contains(out.String(), "shown") {
			t.Errorf("%+v wrote %q", c.options, out.String())
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("%+v wrote colours", c.options)
		}
	}
	for _, bad := range []telemetry.LogOptions{{Format: "xml", Level: "info"}, {Format: "json", Level: "loud"}, {Format: "json"}} {
		if _, err := telemetry.NewLogger(telemetry.NewGuard(&bytes.Buffer{}), bad); err == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

func TestFailureNamesThePlace(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.NewLogger(telemetry.NewGuard(&out), telemetry.LogOptions{Format: "json", Level: "info"})
	if err != nil {
		t.Fatal(err)
	}
	failed := &fault.Error{Op: "read version", Object: "ds_a version 7", Side: fault.SideFeed, Kind: fault.Gone, Status: 410, Dataset: "ds_a", Version: 7, Hint: "Wait."}
	log.Error().Func(telemetry.Failure(fmt.Errorf("sync: %w", failed))).Msg("dataset failed")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"kind": "gone", "side": "feed", "dataset": "ds_a", "version": 7.0, "status": 410.0, "hint": "Wait.", "level": "error"} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	out.Reset()
	log.Error().Func(telemetry.Failure(errors.New("plain"))).Msg("x")
	if !strings.Contains(out.String(), "plain") {
		t.Errorf("wrote %s", out.String())
	}
}

// clock is time that passes when told.
type clock struct {
	mutex sync.Mutex
	now   time.Time
}

func (c *clock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = c.now.Add(d)
}

// work reports a third of a pass in ten seconds.
func work(progress telemetry.Progress, c *clock) {
	progress.Planned("ds_a", 30, 3<<20)
	progress.Stage("ds_a", "version 42: copying")
	progress.Bytes("ds_a", 0)
	c.advance(10 * time.Second)
	for range 10 {
		progress.Bytes("ds_a", 100<<10)
		progress.Finished("ds_a")
	}
	progress.Bytes("ds_a", 24<<10)
}

func TestLinesLogNowAndThen(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.NewLogger(telemetry.NewGuard(&out), telemetry.LogOptions{Format: "json", Level: "debug"})
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{now: time.Unix(1000, 0)}
	tick := make(chan time.Time)
	progress := telemetry.NewLines(log, tick, c.Now)
	tick <- time.Time{} // nothing planned yet: nothing to say
	work(progress, c)
	tick <- time.Time{}
	tick <- time.Time{} // nothing changed
	progress.Finished("ds_a")
	progress.Close()
	progress.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("logged %d lines:\n%s", len(lines), out.String())
	}
	for i, want := range []string{
		"version 42: copying",
		"progress: 10 of 30 files, 1.0 MiB of 3.0 MiB, 102.4 KiB/s, 20s left",
		"progress: 11 of 30 files",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s, want %q", i, lines[i], want)
		}
	}
	if !strings.Contains(lines[1], `"bytesPlanned":3145728`) || !strings.Contains(lines[1], `"stages":["ds_a: version 42: copying"]`) {
		t.Errorf("line lacks its fields: %s", lines[1])
	}
}

func TestTerminalDrawsStagesAndBarBelowLogLines(t *testing.T) {
	var out bytes.Buffer
	c := &clock{now: time.Unix(1000, 0)}
	tick := make(chan time.Time)
	progress := telemetry.NewTerminal(&out, tick, c.Now)
	guard := telemetry.NewGuard(progress)
	work(progress, c)
	if _, err := guard.Write([]byte("a log line\n")); err != nil {
		t.Fatal(err)
	}
	tick <- time.Time{}
	progress.Close()
	progress.Close()
	if _, err := guard.Write([]byte("after the end\n")); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"a log line\n", "ds_a: version 42: copying", "10/30 files", "1.0 MiB/3.0 MiB", "102.4 KiB/s", "20s left", "after the end\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal lacks %q:\n%s", want, text)
		}
	}
	if strings.Index(text, "a log line") > strings.Index(text, "10/30 files") {
		t.Errorf("the log line stands below the bar:\n%s", text)
	}
}

func TestProgressNeverShowsMoreThanAll(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.NewLogger(telemetry.NewGuard(&out), telemetry.LogOptions{Format: "json", Level: "info"})
	if err != nil {
		t.Fatal(err)
	}
	progress := telemetry.NewLines(log, nil, time.Now)
	progress.Planned("ds_a", 1, 10)
	progress.Bytes("ds_a", 25) // fetched again
	progress.Finished("ds_a")
	progress.Close()
	if !strings.Contains(out.String(), "1 of 1 files, 25 B of 25 B") {
		t.Errorf("wrote %s", out.String())
	}
}

// broken is a terminal that went away.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTerminalThatWentAwayStopsNothing(t *testing.T) {
	tick := make(chan time.Time)
	progress := telemetry.NewTerminal(broken{}, tick, time.Now)
	for range 5 {
		progress.Planned("ds_a", 1, 1)
		tick <- time.Time{}
	}
	for range 2 {
		if _, err := progress.Write([]byte("line\n")); err == nil {
			t.Error("the broken pipe is not reported to who writes")
		}
		progress.Close()
	}
}

func TestProgressFromManyGoroutines(t *testing.T) {
	var out bytes.Buffer
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	terminal := telemetry.NewTerminal(&out, tick.C, time.Now)
	for _, progress := range []telemetry.Progress{terminal, telemetry.Silent{}} {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for i := range 500 {
					progress.Planned("d", 1, 10)
					progress.Bytes("d", 10)
					progress.Finished("d")
					progress.Stage(fmt.Sprint("d", i%9), strings.Repeat("x", i%2))
				}
			})
		}
		group.Wait()
		progress.Close()
	}
	if !strings.Contains(out.String(), "4000/4000 files") {
		t.Errorf("the last frame is missing: %q", out.String()[max(0, out.Len()-300):])
	}
}

func TestFormatBytes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB", 3 << 29: "1.5 GiB", 1 << 62: "4.0 EiB"} {
		if got := telemetry.FormatBytes(bytes); got != want {
			t.Errorf("%d: got %s, want %s", bytes, got, want)
		}
	}
}
