package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "MIRROR_"

// serviceVariable matches what Kubernetes puts into every pod for a Service whose name begins
// with "mirror". These are nobody's typing mistakes.
var serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|^MIRROR_([A-Z0-9_]+_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// readEnviron returns the settings in the environment by flag. A variable that is set to nothing
// counts as not set. Values of unknown variables are not shown: they may be secrets.
func readEnviron(environ []string) (map[string]value, []error) {
	flags := map[string]string{envPrefix + "CONFIG": "config"}
	for _, one := range table() {
		flags[one.env()] = one.flag
	}
	out := map[string]value{}
	var unknown []string
	for _, line := range environ {
		name, text, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		switch flag := flags[name]; {
		case flag != "" && text == "":
			delete(out, flag)
		case flag != "":
			out[flag] = value{text: text, from: name}
		case !serviceVariable.MatchString(name):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	var problems []error
	for _, name := range slices.Compact(unknown) {
		problems = append(problems, problem(name, errors.New("no setting has this environment variable"), unknownHint(name)))
	}
	return out, problems
}

// unknownHint helps whoever tries to pass the key as a setting.
func unknownHint(name string) string {
	if strings.Contains(strings.ToLower(name), "key") {
		return "The API key is taken from PLOTI_API_KEY or from the file of --feed-api-key-file."
	}
	return "See --help for the settings; a name is spelled --a-b, MIRROR_A_B and a.b alike."
}
