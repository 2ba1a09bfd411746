package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

type demoCommand struct {
	Dir string `placeholder:"DIR" help:"Mirror into this new folder. Default: a temporary one, which is kept."`
}

// Help is printed below the flags' list.
func (demoCommand) Help() string {
	return `Starts a simulated feed on this machine, and runs against it what you would type: sync, status, approve, verify.
It ends by damaging one bit, to show that the audit finds it.`
}

// The datasets of the demo, each of another character.
const (
	demoPermits = "ds_orange_fl_building_permits"
	demoZoning  = "ds_orange_fl_zoning"
	demoParcels = "ds_orange_fl_parcels"
)

// Run implements command.
func (c *demoCommand) Run(ctx context.Context, env environment) (int, error) {
	dir, err := c.folder()
	if err != nil {
		return 0, err
	}
	simulated, err := feedsim.Start(feedsim.Options{Seed: 2026}) //nolint:contextcheck // a server has a life of its own
	if err != nil {
		return 0, fmt.Errorf("start simulated feed: %w", err)
	}
	defer simulated.Close() //nolint:errcheck // it ends with the process
	d := &demo{ctx: ctx, env: env, dir: dir, feed: simulated, datasets: map[string]*feedsim.Dataset{}}
	d.env.environ = []string{"PLOTI_API_KEY=" + simulated.Key(), "MIRROR_FEED_URL=" + simulated.URL(), "MIRROR_BUCKET=file://" + dir, "MIRROR_LOG_LEVEL=error"}
	for _, act := range []func() error{d.firstPass, d.moreReleases, d.releasedAgain, d.audit} {
		if err := act(); err != nil {
			return 0, err
		}
	}
	return mirror.ExitDone, d.end()
}

func (c *demoCommand) folder() (string, error) {
	if c.Dir == "" {
		return os.MkdirTemp("", "mirror-demo-")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = &fault.Error{Op: "make demo folder", Object: dir, Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New("it is not empty"), Hint: "Give a new folder, or leave --dir out."}
	}
	return dir, err
}

// demo tells a story with the real commands.
type demo struct {
	ctx      context.Context //nolint:containedctx // of the one command it serves
	env      environment
	dir      string
	feed     *feedsim.Feed
	datasets map[string]*feedsim.Dataset
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.env.out, "\n== "+format+"\n", args...)
}

// command runs a command as a person would, and wants its exit code.
func (d *demo) command(want int, args ...string) error {
	fmt.Fprintf(d.env.out, "\n$ mirror %s\n", shellLine(args))
	got := run(d.ctx, args, d.env)
	switch {
	case d.ctx.Err() != nil:
		return context.Cause(d.ctx)
	case got != want:
		return fmt.Errorf("mirror %s ended with %d, not %d", strings.Join(args, " "), got, want)
	case got != 0:
		fmt.Fprintf(d.env.out, "(exit code %d)\n", got)
	}
	return nil
}

func (d *demo) commands(lines ...[]string) error {
	for _, line := range lines {
		if err := d.command(0, line...); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) release(id string, specs ...feedsim.ReleaseSpec) error {
	for _, spec := range specs {
		if _, err := d.datasets[id].Release(spec); err != nil {
			return fmt.Errorf("release %s: %w", id, err)
		}
	}
	return nil
}

func (d *demo) firstPass() error {
	d.say("The mirror will stand in %s", d.dir)
	d.say("A simulated feed with three datasets: permits with a PDF a row, zoning with archived sources, parcels with polygons.")
	for id, character := range map[string]feedsim.Character{demoPermits: feedsim.Points, demoZoning: feedsim.Archive, demoParcels: feedsim.Polygons} {
		added, err := d.feed.AddDataset(feedsim.DatasetSpec{ID: id, Place: "fl-county-orange", Character: character})
		if err != nil {
			return fmt.Errorf("add dataset: %w", err)
		}
		d.datasets[id] = added
	}
	err := errors.Join(
		d.release(demoPermits, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 5, Change: 3, Remove: 1}, feedsim.ReleaseSpec{Add: 2, SkipNumbers: 3}),
		d.release(demoZoning, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{ChangeSource: true}),
		d.release(demoParcels, feedsim.ReleaseSpec{}))
	if err != nil {
		return err
	}
	return d.commands([]string{"sync"}, []string{"status"})
}

func (d *demo) moreReleases() error {
	d.say("The feed releases more: changes and a new column (MINOR) in zoning, and a removed column (MAJOR) in parcels.")
	err := errors.Join(
		d.release(demoZoning, feedsim.ReleaseSpec{Minor: true, Add: 2}),
		d.release(demoParcels, feedsim.ReleaseSpec{Major: true}))
	if err != nil {
		return err
	}
	if err := d.commands([]string{"sync"}, []string{"status"}); err != nil {
		return err
	}
	d.say("The MAJOR version is mirrored already, since the feed forgets; its readers wait until somebody has looked.")
	return d.commands([]string{"approve", demoParcels, "--reason", "the loader takes the new schema"})
}

func (d *demo) releasedAgain() error {
	permits := d.datasets[demoPermits]
	d.say("The feed takes back version %d of the permits, to release it again under a new number.", permits.Current())
	if err := permits.ReleaseAgain(permits.Current()); err != nil {
		return fmt.Errorf("release again: %w", err)
	}
	if err := d.commands([]string{"sync", "--full"}, []string{"status", "--datasets", demoPermits}); err != nil {
		return err
	}
	d.say("The pointer is flagged and stays; one sign from the feed never takes data away. Then the rebuild arrives.")
	if _, err := permits.ReleaseRebuild(); err != nil {
		return fmt.Errorf("release rebuild: %w", err)
	}
	return d.commands([]string{"sync"}, []string{"status"})
}

func (d *demo) audit() error {
	d.say("The audit reads everything again and needs only the folder.")
	if err := d.command(0, "verify"); err != nil {
		return err
	}
	key, err := d.damage()
	if err != nil {
		return err
	}
	d.say("One bit of %s is flipped, as a bad disk would.", key)
	return d.command(mirror.ExitFindings, "verify")
}

// damage flips one bit of the first attachment it finds.
func (d *demo) damage() (key string, err error) {
	err = filepath.WalkDir(filepath.Join(d.dir, filepath.FromSlash(manifest.AttachmentPrefix)), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			return err
		}
		data[len(data)/2] ^= 1
		if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, data, 0o644)); err != nil {
			return err
		}
		relative, err := filepath.Rel(d.dir, path)
		key = filepath.ToSlash(relative)
		return errors.Join(err, fs.SkipAll)
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("damage an attachment: %w", err)
	}
	return key, nil
}

func (d *demo) end() error {
	d.say("What stands in %s now, one of each kind:", d.dir)
	if err := d.tree(); err != nil {
		return err
	}
	d.say("Look around: it is kept in %s", d.dir)
	_, err := fmt.Fprintf(d.env.out, `  %[3]s status --bucket file://%[1]s
  %[3]s verify --bucket file://%[1]s --level inventory
  %[3]s rollback %[2]s 1 --bucket file://%[1]s
  cat %[1]s/current/%[2]s.json
  (cd %[1]s && cat versions/*/*/SHA256SUMS | sha256sum -c --quiet)
  (cd %[1]s && find attachments -type f | while read -r f; do echo "$(basename "$f")  $f"; done | sha256sum -c --quiet)
`, shellLine([]string{d.dir}), demoPermits, d.env.program)
	return err
}

// shellLine returns words as a shell would have to be given them.
func shellLine(args []string) string {
	quoted := make([]string, len(args))
	for at, arg := range args {
		if quoted[at] = arg; strings.ContainsAny(arg, " *?'") {
			quoted[at] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

var (
	demoNumbers  = regexp.MustCompile(`\d{10}`)
	demoHashes   = regexp.MustCompile(`[0-9a-f]{2}/[0-9a-f]{64}`)
	demoDatasets = regexp.MustCompile(`ds_orange_fl_[a-z_]+`)
	demoRuns     = regexp.MustCompile(`\d{8}T[^/]+\.json`)
)

// kindOfKey returns a key without what differs between keys of one kind.
func kindOfKey(key string) string {
	for _, varying := range []*regexp.Regexp{demoHashes, demoNumbers, demoDatasets, demoRuns} {
		key = varying.ReplaceAllString(key, "*")
	}
	return key
}

// tree prints one key of each kind, and how many there are like it.
func (d *demo) tree() error {
	var firsts []string
	like := map[string]int{}
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(d.dir, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(relative)
		switch {
		case entry.IsDir() && (key == "_mirror/tmp" || key == "_mirror/locks" || key == "_mirror/doctor"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		if kind := kindOfKey(key); like[kind] == 0 {
			firsts = append(firsts, key)
		}
		like[kindOfKey(key)]++
		return nil
	})
	for _, key := range firsts {
		more := ""
		if others := like[kindOfKey(key)] - 1; others > 0 {
			more = fmt.Sprintf("  (and %d like it)", others)
		}
		fmt.Fprintf(d.env.out, "  %s%s\n", key, more)
	}
	return err
}
