package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"feedmirror/internal/config"
)

// commandLine is a line that a reader is told to type.
var commandLine = regexp.MustCompile(`^\s*(?:\$ )?mirror ((?:sync|plan|status|verify|approve|rollback|acknowledge|retire|prune|publish-tables|route|ddl|doctor|demo|version)\b[^#>\n]*)`)

// TestCommandsInDocumentsExist parses every command that the documents show: a flag or a word that
// is not there any more turns it red.
func TestCommandsInDocumentsExist(t *testing.T) {
	found := 0
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range codeLines(string(text)) {
			match := commandLine.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			found++
			parser, err := kong.New(new(commands), kong.Name("mirror"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.ParseArgs(parser, words(match[1])); err != nil {
				t.Errorf("%s shows %q: %v", filepath.Base(file), line, err)
			}
		}
	}
	if found < 7 {
		t.Errorf("only %d commands were found: is the pattern still right?", found)
	}
}

var (
	claimedTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	testFunc    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
)

// TestClaimsOfSecurityNameTestsThatExist: a claim whose test went away is none any more.
func TestClaimsOfSecurityNameTestsThatExist(t *testing.T) {
	exist := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range testFunc.FindAllSubmatch(text, -1) {
			exist[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	claims := claimedTest.FindAllSubmatch(text, -1)
	for _, claim := range claims {
		if !exist[string(claim[1])] {
			t.Errorf("SECURITY.md names %s, which is no test", claim[1])
		}
	}
	if len(claims) < 30 {
		t.Errorf("only %d tests are named: is the pattern still right?", len(claims))
	}
}

// TestTheImageRunsWithoutRights: the user is a number, so that a cluster can see that it is not root.
func TestTheImageRunsWithoutRights(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	user := regexp.MustCompile(`(?m)^USER ([1-9][0-9]*):([1-9][0-9]*)$`).FindAll(text, -1)
	if len(user) != 1 || strings.LastIndex(string(text), "\nUSER ") < strings.LastIndex(string(text), "\nFROM ") {
		t.Errorf("the last stage names the users %q", user)
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../README.md", "../../SECURITY.md", "../../docs/*.md", "../../deploy/*.md"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	return files
}

// codeLines returns the lines between fences.
func codeLines(text string) []string {
	var lines []string
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		} else if inside {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

var word = regexp.MustCompile(`'[^']*'|\S+`)

// words splits a line as a shell would, as far as the documents need it.
func words(line string) []string {
	var list []string
	for _, one := range word.FindAllString(line, -1) {
		list = append(list, strings.Trim(one, "'"))
	}
	return list
}

// TestTheExampleSettingsAreTheDefaults loads deploy/mirror.yaml: every line must be known, and what
// it calls a default must be one.
func TestTheExampleSettingsAreTheDefaults(t *testing.T) {
	flags := &config.Flags{}
	file := "../../deploy/mirror.yaml"
	flags.Config = &file
	example, err := config.Load(flags, config.Source{})
	if err != nil {
		t.Fatal(err)
	}
	bucket := example.Bucket
	standard, err := config.Load(&config.Flags{BucketFlags: config.BucketFlags{Bucket: &bucket}}, config.Source{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(bucket) == "" {
		t.Error("it names no bucket")
	}
	if got, want := describe(example), describe(standard); got != want {
		t.Errorf("it sets\n%s\nthe defaults are\n%s", got, want)
	}
}

func describe(settings config.Settings) string { return fmt.Sprintf("%+v", settings) }
