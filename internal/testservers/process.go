package testservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// readyLimit bounds the start of a server on a busy two-core machine, unless its plan names more.
	readyLimit = 90 * time.Second
	// readyEvery is the pause between two questions whether it serves.
	readyEvery = 25 * time.Millisecond
	// tries bounds the starts, each on new ports: a free port can be taken by others meanwhile.
	tries = 3
	// logShown is how much of the end of a log an error quotes, in bytes.
	logShown = 4096
)

// process is a server program that runs.
type process struct {
	name    string
	dir     string   // holds its data, its log and whatever else it writes
	litter  []string // files that it writes elsewhere
	command *exec.Cmd
	ended   chan struct{} // closed when the program has ended
	waitErr error         // how it ended; read after ended is closed
}

// plan is how a server is started on given ports.
type plan struct {
	name  string        // in messages
	tool  string        // program in .tools/bin
	ports int           // free ports that it needs
	env   []string      // beside the few variables that every program gets
	limit time.Duration // until it does real work; readyLimit when zero
	// arguments returns the command line; it may write files into dir first.
	arguments func(dir string, ports []int) ([]string, error)
	// litter names the files that the program writes outside dir; nil when there are none.
	litter func(ports []int) []string
	// ready asks the server for real work and returns nil once it does it.
	ready func(ctx context.Context, ports []int) error
}

// start runs the plan until its server does real work and returns it with its ports.
func start(p plan) (*process, []int, error) {
	workingDir, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	program, err := findTool(workingDir, p.tool)
	if err != nil {
		return nil, nil, err
	}
	var failures []error
	for range tries {
		server, ports, err := startOnce(p, program)
		if err == nil {
			return server, ports, nil
		}
		failures = append(failures, err)
	}
	return nil, nil, fmt.Errorf("start %s: %w", p.name, errors.Join(failures...))
}

func startOnce(p plan, program string) (*process, []int, error) {
	ports, err := freePorts(p.ports)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "feedmirror-"+p.name+"-")
	if err != nil {
		return nil, nil, fmt.Errorf("make folder: %w", err)
	}
	server, err := launch(p, program, dir, ports)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := server.awaitReady(p.ready, ports, cmp.Or(p.limit, readyLimit)); err != nil {
		err = errors.Join(err, server.stop())
		err = fmt.Errorf("%w; end of its log:\n%s", err, server.logTail())
		_, discarded := server.discard(false)
		return nil, nil, errors.Join(err, discarded)
	}
	return server, ports, nil
}

// launch starts the program with its output in dir/log.
func launch(p plan, program, dir string, ports []int) (*process, error) {
	arguments, err := p.arguments(dir, ports)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	// It outlives the test that asked first: stop ends it, no context does.
	command := exec.CommandContext(context.Background(), program, arguments...)
	command.Dir = dir
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = attributes()
	// Only these variables: settings of the user's own servers must not reach ours.
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}, p.env...)
	server := &process{name: p.name, dir: dir, command: command, ended: make(chan struct{})}
	if p.litter != nil {
		server.litter = p.litter(ports)
	}
	started := make(chan error)
	go server.run(started)
	err = <-started
	// The program has its own handle of the log.
	if err := errors.Join(err, log.Close()); err != nil {
		return nil, fmt.Errorf("run %s: %w", p.tool, err)
	}
	return server, nil
}

// run starts the program, reports that on started, and waits for its end. It keeps its thread:
// Linux ends the program when the thread that started it ends, not the process (see attributes).
func (s *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.ended)
	err := s.command.Start()
	started <- err
	if err == nil {
		s.waitErr = s.command.Wait()
	}
}

// awaitReady asks until the server does real work, ends, or takes too long.
func (s *process) awaitReady(ready func(context.Context, []int) error, ports []int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		err := ready(ctx, ports)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("it ended before it served: %w", s.waitErr)
		case <-ctx.Done():
			return fmt.Errorf("it did not serve within %s: %w", limit, err)
		case <-ticker.C:
		}
	}
}

// broken returns how the server ended, if it did so by itself.
func (s *process) broken() error {
	select {
	case <-s.ended:
		return fmt.Errorf("%s ended by itself: %w", s.name, s.waitErr)
	default:
		return nil
	}
}

// stop ends the server's process group and waits for the server's end. One that has ended is left
// alone: its process id may name somebody else's process by now.
func (s *process) stop() error {
	if s.broken() != nil {
		return nil
	}
	// Its data is worth nothing, so it need not end in good order.
	err := syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	<-s.ended
	return nil
}

// logTail returns the end of the server's log, for a message.
func (s *process) logTail() string {
	data, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data[max(0, len(data)-logShown):]))
}

// discard removes what the server wrote. With keepLog the log stays, and its path is returned.
func (s *process) discard(keepLog bool) (string, error) {
	var failure error
	for _, path := range s.litter {
		failure = errors.Join(failure, os.RemoveAll(path))
	}
	if !keepLog {
		return "", errors.Join(failure, os.RemoveAll(s.dir))
	}
	entries, err := os.ReadDir(s.dir)
	failure = errors.Join(failure, err)
	for _, entry := range entries {
		if entry.Name() != "log" {
			failure = errors.Join(failure, os.RemoveAll(filepath.Join(s.dir, entry.Name())))
		}
	}
	return filepath.Join(s.dir, "log"), failure
}
