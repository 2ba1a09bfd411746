package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

// memoryEvery is how often a process is asked for its memory.
const memoryEvery = 20 * time.Millisecond

// ended is a run of the program that came to its end.
type ended struct {
	exit    int
	out     string // standard output
	err     string // standard error
	wall    time.Duration
	peakRSS int64 // greatest RssAnon seen, bytes; 0 when it ended before it was looked at
	report  report
}

// report is what the lines read of what sync and verify print as JSON.
type report struct {
	Status   string  `json:"status"`
	Pass     string  `json:"pass"`
	Exit     int     `json:"exit"`
	Seconds  float64 `json:"seconds"`
	Datasets struct {
		Changed, Failed int
	} `json:"datasets"`
	Versions struct {
		Committed, Published int
	} `json:"versions"`
	Files struct {
		Copied, Present, Failed int64
	} `json:"files"`
	Requests struct {
		Feed, Links, Source                 int64
		BucketRead, BucketWrite, BucketList int64
	} `json:"requests"`
	Failures []failure `json:"failures"`
	Findings []any     `json:"findings"`
	Checked  struct {
		Objects, Attachments, Bytes int64
	} `json:"checked"`
	Rows struct {
		DiskBytes int64
		Versions  []struct {
			Rows, Changes int64
			Replayed      bool
			Seconds       float64
		}
	} `json:"rows"`
}

type failure struct {
	Dataset, Object, Side, Message, Hint string
	Version                              int64
}

// process is a run of the program under test.
type process struct {
	command  *exec.Cmd
	out, err bytes.Buffer
	began    time.Time
	peak     chan int64
	stop     chan struct{}
}

// environment is everything that the program sees of ours.
func (s *stage) environment(feed *feedsim.Feed, extra ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir}
	if feed != nil {
		env = append(env, "PLOTI_API_KEY="+feed.Key(), "MIRROR_FEED_URL="+feed.URL())
	}
	return append(env, extra...)
}

// credentials of a server for the program's default chain.
func credentials(server testservers.S3) []string {
	return []string{"AWS_ACCESS_KEY_ID=" + server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + server.SecretKey,
		"AWS_EC2_METADATA_DISABLED=true"}
}

// start runs the program and watches its memory until wait.
func (s *stage) start(ctx context.Context, env []string, args ...string) (*process, error) {
	s.command("mirror " + strings.Join(args, " "))
	p := &process{command: exec.CommandContext(ctx, s.binary, args...), began: time.Now(), peak: make(chan int64, 1), stop: make(chan struct{})}
	p.command.Env, p.command.Dir = env, s.dir
	p.command.Stdout, p.command.Stderr = &p.out, &p.err
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.binary, err)
	}
	go p.watch()
	return p, nil
}

func (p *process) watch() {
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	var peak int64
	for {
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid)); err == nil {
			peak = max(peak, rssAnon(data))
		}
		select {
		case <-p.stop:
			p.peak <- peak
			return
		case <-ticker.C:
		}
	}
}

// rssAnon reads the line of /proc/PID/status that counts anonymous memory, in bytes; 0 without it.
func rssAnon(status []byte) int64 {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

// wait waits for the program's end.
func (p *process) wait() (ended, error) {
	err := p.command.Wait()
	wall := time.Since(p.began)
	close(p.stop)
	e := ended{exit: p.command.ProcessState.ExitCode(), out: p.out.String(), err: p.err.String(), wall: wall, peakRSS: <-p.peak}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return e, fmt.Errorf("run the program: %w", err)
	}
	if text := strings.TrimSpace(e.out); strings.HasPrefix(text, "{") {
		if err := json.Unmarshal([]byte(text), &e.report); err != nil {
			return e, fmt.Errorf("read what the program printed: %w", err)
		}
	}
	return e, nil
}

// mirror runs the program to its end.
func (s *stage) mirror(ctx context.Context, env []string, args ...string) (ended, error) {
	p, err := s.start(ctx, env, args...)
	if err != nil {
		return ended{}, err
	}
	e, err := p.wait()
	if err == nil {
		err = ctx.Err()
	}
	return e, err
}

// sync runs one pass with JSON and wants its exit code.
func (s *stage) sync(ctx context.Context, env []string, exit int, bucket string, args ...string) (ended, error) {
	e, err := s.mirror(ctx, env, append([]string{"sync", "--output", "json", "--log-level", "warn", "--bucket", bucket}, args...)...)
	if err == nil && e.exit != exit {
		s.want(false, "sync ended with %d, not %d: %s", e.exit, exit, e.complaint())
	}
	return e, err
}

// verify runs an audit and wants it clean.
func (s *stage) verify(ctx context.Context, env []string, bucket, level string) error {
	e, err := s.mirror(ctx, env, "verify", "--level", level, "--output", "json", "--log-level", "warn", "--bucket", bucket)
	if err != nil {
		return err
	}
	s.want(e.exit == 0 && len(e.report.Findings) == 0 && e.report.Checked.Objects > 0, "verify --level %s: exit %d, %d findings, %d objects checked, %s read",
		level, e.exit, len(e.report.Findings), e.report.Checked.Objects, size(e.report.Checked.Bytes))
	return nil
}

// complaint is the first thing that went wrong, or what stands on standard error.
func (e ended) complaint() string {
	if len(e.report.Failures) > 0 {
		f := e.report.Failures[0]
		return fmt.Sprintf("%s %s [%s]: %s (%s)", f.Dataset, f.Object, f.Side, f.Message, f.Hint)
	}
	text := strings.TrimSpace(e.err)
	return text[max(0, len(text)-400):]
}

// size spells bytes.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
