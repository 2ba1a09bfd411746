package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"feedmirror/internal/fault"
)

// maxUnknown bounds how many unknown flags are looked for.
const maxUnknown = 20

var unknownFlag = regexp.MustCompile(`^unknown flag (-[^\s,]+)`)

// ParseArgs parses a command line and reports all unknown flags at once, where kong stops at the
// first. The context is there also beside an error when the rest of the line is good, so that the
// settings can be loaded and their problems reported too. The error is a fault.Usage.
func ParseArgs(parser *kong.Kong, args []string) (*kong.Context, error) {
	args = slices.Clone(args)
	var problems []error
	for {
		context, err := parser.Parse(args)
		if err == nil {
			return context, errors.Join(problems...)
		}
		match := unknownFlag.FindStringSubmatch(err.Error())
		if match == nil || len(problems) == maxUnknown {
			if len(problems) == 0 { // else it may only follow from a flag that was taken out
				problems = append(problems, usage(err))
			}
			return nil, errors.Join(problems...)
		}
		problems = append(problems, usage(err))
		kept := withoutFlag(args, match[1])
		if len(kept) == len(args) {
			return nil, errors.Join(problems...)
		}
		args = kept
	}
}

func usage(err error) error {
	return &fault.Error{Op: "read command line", Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New(fault.RedactText(err.Error())), Hint: "See mirror --help."}
}

// withoutFlag drops the first use of a flag, and its value when that stands in the same word.
func withoutFlag(args []string, flag string) []string {
	at := slices.IndexFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
	if at < 0 {
		return args
	}
	return slices.Delete(slices.Clone(args), at, at+1)
}
