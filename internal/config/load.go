package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"feedmirror/internal/fault"
)

// Source is where settings come from beside the command line.
type Source struct {
	Environ  []string                     // "NAME=value", as os.Environ returns it
	ReadFile func(string) ([]byte, error) // os.ReadFile by default
}

// value is a setting's text and where it stands.
type value struct {
	text string
	from string
}

// Load returns the settings that flags, environment, file and defaults come to. flags points to
// a struct with Flags, or some of its groups, embedded at any depth. needs names settings that
// must be given, by flag: "bucket". The error holds all problems, each a fault.Usage.
func Load(flags any, source Source, needs ...string) (Settings, error) {
	typed := typedFlags(reflect.ValueOf(flags))
	environ, problems := readEnviron(source.Environ)
	var file map[string]value
	unread := false
	if name, ok := firstOf("config", typed, environ); ok {
		var more []error
		file, more = readFile(name, source)
		problems = append(problems, more...)
		unread = file == nil
	}
	var settings Settings
	for _, one := range table() {
		given, ok := firstOf(one.flag, typed, environ, file)
		switch {
		case !ok && unread && slices.Contains(needs, one.flag): // it may stand in the file that could not be read
			continue
		case !ok && slices.Contains(needs, one.flag):
			problems = append(problems, problem(one.yaml, errors.New("it must be given"), fmt.Sprintf("Give it as --%s, %s or %s in the file of --config: %s.", one.flag, one.env(), one.yaml, one.allowed)))
			continue
		case !ok && one.flag == "shard":
			given, ok = shardOfJob(source.Environ)
		}
		if !ok {
			if one.initial == "" {
				continue
			}
			given = value{text: one.initial, from: "the default"}
		}
		if err := one.read(&settings, given.text); err != nil {
			problems = append(problems, rejected(one, given, err))
		}
	}
	if len(problems) > 0 {
		return Settings{}, errors.Join(problems...)
	}
	return settings, nil
}

func problem(object string, err error, hint string) error {
	return &fault.Error{Op: "read setting", Object: object, Side: fault.SideConfig, Kind: fault.Usage, Err: err, Hint: hint}
}

func rejected(one setting, given value, err error) error {
	shown := strconv.Quote(fault.RedactText(given.text))
	reason := ""
	if !errors.Is(err, errValue) {
		reason = " (" + fault.RedactText(err.Error()) + ")"
	}
	return problem(one.yaml, fmt.Errorf("%s from %s%s: want %s", shown, given.from, reason, one.allowed), "")
}

// firstOf returns a setting from the first layer that has it.
func firstOf(flag string, layers ...map[string]value) (value, bool) {
	for _, layer := range layers {
		if given, ok := layer[flag]; ok {
			return given, true
		}
	}
	return value{}, false
}

// typedFlags returns what was typed, by flag, of the fields of this package's groups.
func typedFlags(flags reflect.Value) map[string]value {
	out := map[string]value{}
	for flags.Kind() == reflect.Pointer && !flags.IsNil() {
		flags = flags.Elem()
	}
	if flags.Kind() != reflect.Struct {
		return out
	}
	for i := range flags.NumField() {
		field := flags.Type().Field(i)
		if !field.IsExported() && !field.Anonymous {
			continue
		}
		if field.Type.Kind() == reflect.Struct { // a group, perhaps inside a command's own group
			for name, given := range typedFlags(flags.Field(i)) {
				out[name] = given
			}
			continue
		}
		name := field.Tag.Get("name")
		if flags.Type().PkgPath() != reflect.TypeFor[Flags]().PkgPath() || name == "" {
			continue // a flag of the command's own
		}
		if text, ok := textOf(flags.Field(i).Interface()); ok {
			out[name] = value{text: text, from: "--" + name}
		}
	}
	return out
}

func textOf(field any) (string, bool) {
	switch field := field.(type) {
	case *string:
		if field != nil {
			return *field, true
		}
	case *bool:
		if field != nil {
			return strconv.FormatBool(*field), true
		}
	case []string:
		if field != nil {
			return strings.Join(field, ","), true
		}
	}
	return "", false
}

// shardOfJob reads the pod's place in an Indexed Job. Kubernetes sets JOB_COMPLETION_INDEX; how
// many pods there are must be told in JOB_COMPLETIONS. An index without it is no shard that can
// be worked on: every pod taking everything is what sharding is to avoid.
func shardOfJob(environ []string) (value, bool) {
	index, ok := lookup(environ, "JOB_COMPLETION_INDEX")
	if !ok {
		return value{}, false
	}
	of, _ := lookup(environ, "JOB_COMPLETIONS")
	return value{text: index + "/" + of, from: "JOB_COMPLETION_INDEX/JOB_COMPLETIONS"}, true
}

func lookup(environ []string, name string) (string, bool) {
	for _, line := range slices.Backward(environ) { // the last one counts, as in os/exec
		if text, ok := strings.CutPrefix(line, name+"="); ok {
			return text, true
		}
	}
	return "", false
}

// APIKey returns a function that reads the key anew at each call: from the file that the setting
// names, since a mounted secret is renewed in place, or from PLOTI_API_KEY.
func (s Settings) APIKey(source Source) func() (string, error) {
	return func() (string, error) {
		if s.FeedAPIKeyFile == "" {
			key, _ := lookup(source.Environ, "PLOTI_API_KEY")
			return strings.TrimSpace(key), nil
		}
		data, err := source.read(s.FeedAPIKeyFile)
		if err != nil {
			return "", fmt.Errorf("read API key file: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
}

func (s Source) read(name string) ([]byte, error) {
	if s.ReadFile != nil {
		return s.ReadFile(name)
	}
	return os.ReadFile(name)
}
