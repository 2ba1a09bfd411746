package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// TestMain makes this test binary the mirror program when a script runs "mirror".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mirror": main})
}

// TestScripts runs testdata/script/*.txtar: the real program against a simulated feed, with exit
// codes, output and bucket.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"feed":       feedCommand,
			"exits":      exitsCommand,
			"json":       jsonCommand,
			"flip":       flipCommand,
			"finding":    findingCommand,
			"invariants": invariantsCommand,
			"sha256sum":  sumsCommand,
		},
	})
}

type feedKey struct{}

// setUpScript starts a feed for the script and points the settings at it and at a folder.
func setUpScript(env *testscript.Env) error {
	feed, err := feedsim.Start(feedsim.Options{Seed: 11})
	if err != nil {
		return err
	}
	env.Defer(func() { _ = feed.Close() })
	env.Values[feedKey{}] = feed
	env.Setenv("MIRROR_FEED_URL", feed.URL())
	env.Setenv("PLOTI_API_KEY", feed.Key())
	env.Setenv("BUCKET", filepath.Join(env.WorkDir, "bucket"))
	env.Setenv("MIRROR_BUCKET", "file://"+filepath.Join(env.WorkDir, "bucket"))
	env.Setenv("MIRROR_LEASE_TTL", "1s")
	return nil
}

func feedOf(ts *testscript.TestScript) *feedsim.Feed {
	feed, _ := ts.Value(feedKey{}).(*feedsim.Feed)
	return feed
}

// feedCommand makes the feed do something: "feed add ID points", "feed release ID minor add=2",
// "feed again ID 2", "feed rebuild ID", "feed refuse SIDE CODE", "feed clear".
func feedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: feed VERB ...")
	}
	feed := feedOf(ts)
	switch args[0] {
	case "add":
		characters := map[string]feedsim.Character{"points": feedsim.Points, "polygons": feedsim.Polygons, "plain": feedsim.Plain, "archive": feedsim.Archive}
		_, err := feed.AddDataset(feedsim.DatasetSpec{ID: args[1], Character: characters[args[2]], Rows: 10})
		ts.Check(err)
	case "release":
		_, err := feed.Dataset(args[1]).Release(releaseSpec(ts, args[2:]))
		ts.Check(err)
	case "again":
		number, err := strconv.ParseInt(args[2], 10, 64)
		ts.Check(err)
		ts.Check(feed.Dataset(args[1]).ReleaseAgain(number))
	case "rebuild":
		_, err := feed.Dataset(args[1]).ReleaseRebuild()
		ts.Check(err)
	case "rebuilding":
		feed.Dataset(args[1]).Rebuilding(true)
	case "rewrite":
		number, err := strconv.ParseInt(args[2], 10, 64)
		ts.Check(err)
		ts.Check(feed.Dataset(args[1]).RewriteHistory(number))
	case "refuse":
		code, err := strconv.Atoi(args[2])
		ts.Check(err)
		feed.Script(feedsim.Rule{Side: feedsim.Side(args[1]), Times: feedsim.Always}, feedsim.Refuse(code, "refused", "refused by the script"))
	case "corrupt":
		feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: args[1], Times: feedsim.Always}, feedsim.FlipByte(50))
	case "clear":
		feed.ClearScript()
	default:
		ts.Fatalf("unknown verb %s", args[0])
	}
}

func releaseSpec(ts *testscript.TestScript, words []string) feedsim.ReleaseSpec {
	var spec feedsim.ReleaseSpec
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		number := 0
		if value != "" {
			var err error
			number, err = strconv.Atoi(value)
			ts.Check(err)
		}
		switch name {
		case "minor":
			spec.Minor = true
		case "major":
			spec.Major = true
		case "add":
			spec.Add = number
		case "empty":
			spec.Empty = true
		case "ids":
			spec.ReplaceIDs = true
		case "skip":
			spec.SkipNumbers = number
		case "doubtful":
			spec.RowCountOff = 7
		default:
			ts.Fatalf("unknown word %s", word)
		}
	}
	return spec
}

// exitsCommand runs a program and wants exactly this exit code: "exits 3 mirror verify".
func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		code = exited.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if code != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), code, want)
	}
}

// jsonCommand wants a field of the JSON on standard output: "json datasets.changed 1".
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &value); err != nil {
		ts.Fatalf("standard output is no single JSON value: %v", err)
	}
	for name := range strings.SplitSeq(args[0], ".") {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			index, err := strconv.Atoi(name)
			if err != nil || index >= len(at) {
				ts.Fatalf("%s: no element %s of %d", args[0], name, len(at))
			}
			value = at[index]
		default:
			ts.Fatalf("%s: nothing below %v", args[0], at)
		}
	}
	if got := fmt.Sprint(value); (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// flipCommand flips a bit of the one file that a pattern below the bucket matches first.
func flipCommand(ts *testscript.TestScript, _ bool, args []string) {
	matches, err := filepath.Glob(filepath.Join(ts.Getenv("BUCKET"), args[0]))
	ts.Check(err)
	if len(matches) == 0 {
		ts.Fatalf("nothing matches %s", args[0])
	}
	data, err := os.ReadFile(matches[0])
	ts.Check(err)
	data[len(data)/2] ^= 1
	ts.Check(os.Chmod(matches[0], 0o644))
	ts.Check(os.WriteFile(matches[0], data, 0o644))
}

// findingCommand keeps the id of the first finding on standard output, which is JSON, as $FINDING.
func findingCommand(ts *testscript.TestScript, _ bool, _ []string) {
	var report struct {
		Findings []struct{ ID string } `json:"findings"`
	}
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &report); err != nil || len(report.Findings) == 0 {
		ts.Fatalf("no finding on standard output (%v)", err)
	}
	ts.Setenv("FINDING", report.Findings[0].ID)
}

// invariantsCommand wants the bucket to keep every promise, read from its files alone.
func invariantsCommand(ts *testscript.TestScript, _ bool, _ []string) {
	for _, violation := range invariant.Check(invariant.Folder(ts.Getenv("BUCKET"))) {
		ts.Fatalf("violated: %+v", violation)
	}
}

var sumLine = regexp.MustCompile(`(?m)^[0-9a-f]{64}  \S+$`)

// sumsCommand runs sha256sum -c over all SHA256SUMS from the bucket's root, without the mirror.
func sumsCommand(ts *testscript.TestScript, _ bool, _ []string) {
	files, err := filepath.Glob(filepath.Join(ts.Getenv("BUCKET"), "versions/*/*/SHA256SUMS"))
	ts.Check(err)
	var lines strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		lines.Write(data)
	}
	if len(sumLine.FindAllString(lines.String(), -1)) == 0 {
		ts.Fatalf("no line to check in %d files", len(files))
	}
	check := exec.CommandContext(context.Background(), "sha256sum", "-c", "--strict", "--quiet")
	check.Dir, check.Stdin = ts.Getenv("BUCKET"), strings.NewReader(lines.String())
	if out, err := check.CombinedOutput(); err != nil {
		ts.Fatalf("sha256sum -c: %v\n%s", err, out)
	}
}
