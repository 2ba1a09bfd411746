package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"feedmirror/internal/telemetry"
)

func TestOneLineSpellsOutWhatSteers(t *testing.T) {
	for text, want := range map[string]string{
		"plain, Ünïcode 日本 'quoted' \"so\"": "plain, Ünïcode 日本 'quoted' \"so\"",
		"a\r\nb\tc":           `a\r\nb\tc`,
		"\x1b[2Jgone\x07":     `\x1b[2Jgone\a`,
		"\u202egnp.exe\u2066": `\u202egnp.exe\u2066`,
		"\u009b31m":           `\u009b31m`,
		"nul\x00 bad\xff\xfe": `nul\x00 bad\xff\xfe`,
		"\u2028":              `\u2028`,
	} {
		if got := telemetry.OneLine(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	var out bytes.Buffer
	type kind string
	telemetry.Linef(&out, "%s %-4s %d %v|\n", "a\nb", kind("k\x1b"), 7, fmt.Errorf("e\r"))
	if got, want := out.String(), "a\\nb k\\x1b 7 e\\r|\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlainKeepsJSONTheSame(t *testing.T) {
	want := map[string]string{"a": "\x1b[0m \u009b \u202e \u2067 \x7f \n \t Ü", "b\u200f": "x"}
	var out bytes.Buffer
	if err := json.NewEncoder(telemetry.NewPlain(&out)).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: got %q", err, got)
	}
	for _, steering := range []string{"\x1b", "\u009b", "\u202e", "\u2067", "\x7f", "\u200f"} {
		if strings.Contains(out.String(), steering) {
			t.Errorf("%q is still in %q", steering, out.String())
		}
	}
}
