package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	good := map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1h 30m": 90 * time.Minute, "2d": 48 * time.Hour,
		"1w": 168 * time.Hour, "1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond, " 5M ": 5 * time.Minute,
	}
	for text, want := range good {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "10", "-5s", "5 minutes", "s", "1e3s", "5s5", "99999999999w", "NaN", "+1s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q passed as %s", text, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	good := map[string]int64{
		"0": 0, "1024": 1024, "1KiB": 1 << 10, "50GiB": 50 << 30, "50 gib": 50 << 30, "1.5Gi": 3 << 29, "2k": 2000,
		"50GB": 50_000_000_000, "50G": 50_000_000_000, "3TB": 3_000_000_000_000, "12B": 12, "1Pi": 1 << 50,
	}
	for text, want := range good {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "GiB", "1iB", "10XB", "1e9", "9PiB", "1 2", "0x10"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q passed as %d", text, got)
		}
	}
}

func TestEachSettingHasItsFlagAndHelpShowsTheDefault(t *testing.T) {
	flags := map[string]reflect.StructTag{}
	groups := reflect.TypeFor[Flags]()
	for i := range groups.NumField() {
		group := groups.Field(i).Type
		for k := range group.NumField() {
			tag := group.Field(k).Tag
			flags[tag.Get("name")] = tag
		}
	}
	delete(flags, "config")
	for _, one := range table() {
		tag, ok := flags[one.flag]
		if !ok {
			t.Errorf("%s has no flag", one.flag)
		}
		delete(flags, one.flag)
		if one.initial != "false" && one.initial != "" && tag.Get("placeholder") != one.initial {
			t.Errorf("the help of %s shows %q, but the default is %q", one.flag, tag.Get("placeholder"), one.initial)
		}
		if tag.Get("help") == "" || tag.Get("group") == "" {
			t.Errorf("%s has no help or no group", one.flag)
		}
		if got := strings.ReplaceAll(strings.ReplaceAll(one.yaml, ".", "-"), "_", "-"); got != one.flag {
			t.Errorf("%s is called %s in the file", one.flag, one.yaml)
		}
	}
	for flag := range flags {
		t.Errorf("flag %s is no setting", flag)
	}
}

func FuzzParseValues(f *testing.F) {
	for _, text := range []string{"1h30m", "50GiB", "0/1", "10.0.0.0/8", "ds_*", "s3://b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, one := range table() {
			var settings Settings
			err := one.read(&settings, text)
			if err == nil && (settings.TransferMinRate < 0 || settings.TransferBandwidth < 0 || settings.MaxDuration < 0 || settings.ShardIndex < 0 || settings.FeedOverlap < 0) {
				t.Errorf("%s took %q for something negative", one.flag, text)
			}
		}
	})
}

func FuzzReadFile(f *testing.F) {
	f.Add("transfer:\n  attempts: 3\ndatasets: [a, b]\n")
	f.Add("a: &x [*x]\n<<: {b: c}\n")
	f.Fuzz(func(t *testing.T, text string) {
		out, problems := readFile(value{"f.yaml", "--config"}, Source{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
		for flag := range out {
			if flag == "" {
				t.Errorf("a setting without a name from %q", text)
			}
		}
		for _, one := range problems {
			if strings.ContainsAny(one.Error(), "\n") {
				t.Errorf("problem of several lines: %q", one)
			}
		}
	})
}
