package main

import (
	"context"
	"fmt"
	"time"
)

// line is one requirement.
type line struct {
	number     string
	title      string // the requirement in our own words
	needsClone bool
	needsTest  bool
	run        func(context.Context, *stage) error
}

// stage is where one line runs: a folder of its own, and what it found.
type stage struct {
	*bench
	*result
	dir string
}

// result is what one line measured.
type result struct {
	commands []string
	measured []string
	wrong    []string // those of measured that are not as they must be
	took     time.Duration
}

// want records what was measured, and whether it is as it must be.
func (r *result) want(ok bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !ok {
		r.wrong = append(r.wrong, text)
		text = "**NOT MET:** " + text
	}
	r.measured = append(r.measured, text)
}

// note records a figure of which nothing is demanded.
func (r *result) note(format string, args ...any) { r.want(true, format, args...) }

// command records what was run, once.
func (r *result) command(text string) {
	for _, known := range r.commands {
		if known == text {
			return
		}
	}
	r.commands = append(r.commands, text)
}

// met is false for a line that measured nothing.
func (r *result) met() bool { return len(r.wrong) == 0 && len(r.measured) > 0 }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
