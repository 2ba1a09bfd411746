package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"feedmirror/internal/config"
	"feedmirror/internal/fault"
)

type commandLine struct {
	config.OutputFlags
	Sync struct {
		config.FileFlags
		config.FeedFlags
		config.BucketFlags
		config.SelectFlags
		config.TransferFlags
		config.PublishFlags
		Level string `default:"bytes"`
	} `cmd:""`
}

// load parses args as the program does and loads the settings.
func load(t *testing.T, environ []string, args ...string) (config.Settings, error) {
	t.Helper()
	var line commandLine
	parser, err := kong.New(&line, kong.Name("mirror"), kong.Exit(func(int) { t.Error("kong wants to exit") }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.ParseArgs(parser, append([]string{"sync"}, args...)); err != nil {
		t.Fatal(err)
	}
	return config.Load(&line, config.Source{Environ: environ})
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mirror.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// problems splits a joined error and checks that each is a usage error.
func problems(t *testing.T, err error) []string {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v, want joined problems", err)
	}
	var out []string
	for _, one := range joined.Unwrap() {
		if !fault.Is(one, fault.Usage) || fault.SideOf(one) != fault.SideConfig {
			t.Errorf("%v is no usage error", one)
		}
		out = append(out, one.Error())
	}
	return out
}

func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	got := problems(t, err)
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i, text := range want {
		for part := range strings.SplitSeq(text, "|") {
			if !strings.Contains(got[i], part) {
				t.Errorf("problem %q does not say %q", got[i], part)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	got, err := load(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Settings{
		FeedURL: "https://api.ploti.ai", FeedOverlap: 10 * time.Minute, FeedRebuildWait: 10 * time.Minute, History: "all", ShardOf: 1,
		TransferConcurrency: 16, TransferAttempts: 5, TransferIdleTimeout: 30 * time.Second, TransferMinRate: 1024, TransferRateWindow: time.Minute,
		PublishOnMajor: "hold", LeaseTTL: time.Minute, Output: "text", LogFormat: "auto", LogLevel: "info",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// samples has a text for each setting, other than its default, and where it is not one word.
var samples = map[string]string{
	"feed-url": "http://127.0.0.1:1", "feed-api-key-file": "key.txt", "feed-overlap": "1h", "feed-rebuild-wait": "5m",
	"bucket": "s3://b/p?region=eu-west-1", "ca-file": "ca.pem", "accept-weak-locking": "true", "datasets": "ds_a*,ds_[bc]", "history": "current", "full": "true",
	"shard": "2/5", "max-duration": "50m", "transfer-concurrency": "3", "transfer-attempts": "7", "transfer-idle-timeout": "10s",
	"transfer-min-rate": "2KiB/s", "transfer-rate-window": "2m", "transfer-bandwidth": "50MiB/s", "allow-private-links": "10.0.0.0/8,fd00::/8", "links-hosts": "*.S3.amazonaws.com,files.example.org.",
	"publish-on-major": "follow", "lease-ttl": "90s", "output": "json", "log-format": "json", "log-level": "debug",
}

func sampled() config.Settings {
	return config.Settings{
		FeedURL: "http://127.0.0.1:1", FeedAPIKeyFile: "key.txt", FeedOverlap: time.Hour, FeedRebuildWait: 5 * time.Minute,
		Bucket: "s3://b/p?region=eu-west-1", CAFile: "ca.pem", AcceptWeakLocking: true, Datasets: []string{"ds_a*", "ds_[bc]"}, History: "current", Full: true,
		ShardIndex: 2, ShardOf: 5, MaxDuration: 50 * time.Minute, TransferConcurrency: 3, TransferAttempts: 7, TransferIdleTimeout: 10 * time.Second,
		TransferMinRate: 2048, TransferRateWindow: 2 * time.Minute, TransferBandwidth: 50 << 20,
		AllowPrivateLinks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		LinksHosts:        []string{"*.s3.amazonaws.com", "files.example.org"},
		PublishOnMajor:    "follow", LeaseTTL: 90 * time.Second, Output: "json", LogFormat: "json", LogLevel: "debug",
	}
}

func TestEverySettingComesFromEveryLayer(t *testing.T) {
	var args, environ []string
	for flag, text := range samples {
		args = append(args, "--"+flag+"="+text)
		environ = append(environ, "MIRROR_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))+"="+text)
	}
	yaml := file(t, `
feed: {url: "http://127.0.0.1:1", api_key_file: key.txt, overlap: 1h, rebuild_wait: 5m}
bucket: s3://b/p?region=eu-west-1
ca_file: ca.pem
accept_weak_locking: true
datasets: # a list
  - ds_a*
  - "ds_[bc]"
history: current
full: true
shard: 2/5
max_duration: 50m
transfer:
  concurrency: 3
  attempts: 7
  idle_timeout: 10s
  min_rate: 2KiB/s
  rate_window: 2m
  bandwidth: 50MiB/s
allow_private_links: 10.0.0.0/8,fd00::/8
links_hosts: ["*.S3.amazonaws.com", files.example.org.]
publish:
  on_major: follow
lease: {ttl: 90s}
output: json
log:
  format: json
  level: debug
`)
	compare := func(name string, got config.Settings, err error) {
		t.Helper()
		if diff := cmp.Diff(sampled(), got, cmpopts.EquateComparable(netip.Prefix{})); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	got, err := load(t, nil, args...)
	compare("flags", got, err)
	got, err = load(t, environ)
	compare("environment", got, err)
	got, err = load(t, nil, "--config", yaml)
	compare("file", got, err)
	got, err = load(t, []string{"MIRROR_CONFIG=" + yaml})
	compare("file named by the environment", got, err)
}

func TestFlagBeforeEnvironmentBeforeFile(t *testing.T) {
	yaml := file(t, "transfer:\n  attempts: 2\n  concurrency: 2\nhistory: current\n")
	environ := []string{"MIRROR_TRANSFER_ATTEMPTS=3", "MIRROR_TRANSFER_CONCURRENCY=3", "MIRROR_OUTPUT="}
	got, err := load(t, environ, "--config", yaml, "--transfer-attempts", "4")
	if err != nil {
		t.Fatal(err)
	}
	if got.TransferAttempts != 4 || got.TransferConcurrency != 3 || got.History != "current" || got.Output != "text" {
		t.Errorf("got %+v", got)
	}
}

func TestAllProblemsAreReportedAtOnceWithTheirPlace(t *testing.T) {
	yaml := file(t, "bucket: ftp://b\ntransfer:\n  attempts: many\n  concurency: 3\nhistory: all\nhistory: current\n")
	environ := []string{"MIRROR_FEED_OVERLAP=10", "MIRROR_TYPO=1"}
	_, err := load(t, environ, "--config", yaml, "--shard=5/5", "--datasets=ds_[", "--allow-private-links=10.0.0.1/8", "--links-hosts=a.example:443")
	wantProblems(t, err,
		"MIRROR_TYPO|no setting",
		yaml+`:4|"transfer.concurency"`,
		yaml+":6|history stands twice|line 5",
		`feed.overlap|"10" from MIRROR_FEED_OVERLAP|a unit is missing|0 to 7 days`,
		`bucket|"ftp://b" from `+yaml+":1|s3://",
		`datasets|"ds_[" from --datasets|globs`,
		`shard|"5/5" from --shard|i/n`,
		`transfer.attempts|"many" from `+yaml+":3|1 to 100",
		`allow_private_links|"10.0.0.1/8" from --allow-private-links|10.0.0.0/8`,
		`links_hosts|"a.example:443" from --links-hosts|names a port|a.example is meant`,
	)
}

func TestNeededSettings(t *testing.T) {
	var line commandLine
	_, err := config.Load(&line, config.Source{}, "bucket")
	wantProblems(t, err, "bucket|must be given")
	if hint := fault.HintOf(err.(interface{ Unwrap() []error }).Unwrap()[0]); !strings.Contains(hint, "--bucket, MIRROR_BUCKET") {
		t.Errorf("the hint is %q", hint)
	}
	if _, err := config.Load(&line, config.Source{Environ: []string{"MIRROR_BUCKET=file:///x"}}, "bucket"); err != nil {
		t.Error(err)
	}
}

func TestShardOfAnIndexedJob(t *testing.T) {
	got, err := load(t, []string{"JOB_COMPLETION_INDEX=3", "JOB_COMPLETIONS=8"})
	if err != nil || got.ShardIndex != 3 || got.ShardOf != 8 {
		t.Errorf("got %d/%d, %v", got.ShardIndex, got.ShardOf, err)
	}
	got, err = load(t, []string{"JOB_COMPLETION_INDEX=3"}, "--shard=0/1")
	if err != nil || got.ShardOf != 1 {
		t.Errorf("got %d/%d, %v", got.ShardIndex, got.ShardOf, err)
	}
	_, err = load(t, []string{"JOB_COMPLETION_INDEX=3"})
	wantProblems(t, err, "JOB_COMPLETIONS")
}

func TestUnknownEnvironmentNeverShowsItsValue(t *testing.T) {
	_, err := load(t, []string{"MIRROR_FEED_API_KEY=S3CRET", "MIRROR_SERVICE_HOST=10.0.0.1", "MIRROR_PORT=tcp://10.0.0.1:80",
		"MIRROR_METRICS_SERVICE_PORT_HTTP=9090", "MIRROR_METRICS_PORT_9090_TCP_ADDR=10.0.0.1", "MIRRORED=1"})
	wantProblems(t, err, "MIRROR_FEED_API_KEY")
	if strings.Contains(err.Error(), "S3CRET") {
		t.Errorf("error %q shows the value", err)
	}
}

func TestSecretsInBucketAddressesAreNotShown(t *testing.T) {
	_, err := load(t, nil, "--bucket=ftp://user:S3CRET@b?token=S3CRET")
	if err == nil || strings.Contains(err.Error(), "S3CRET") {
		t.Errorf("got %v", err)
	}
}

func TestStrictFile(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"not YAML":         {"a: [", "not YAML"},
		"list":             {"- a", ":1|settings by name"},
		"scalar":           {"hello", ":1|settings by name"},
		"section no map":   {"transfer: 3", ":1|transfer must hold settings by name"},
		"unknown top":      {"buckets: x", `:1|no setting is called "buckets"`},
		"unknown nested":   {"feed:\n  key: S3CRET", `:2|"feed.key"`},
		"dotted":           {"transfer.attempts: 3", ":1|must be nested"},
		"duplicate":        {"output: text\n\noutput: json", ":3|stands twice"},
		"duplicate nested": {"log:\n  level: info\n  level: warn", ":3|log.level stands twice"},
		"section twice":    {"log:\n  level: info\nlog:\n  format: json", ":3|log stands twice"},
		"map for a word":   {"output: {a: b}", ":1|another kind"},
		"list for a word":  {"output: [text]", ":1|another kind"},
		"null":             {"output:", ":1|another kind"},
		"alias":            {"output: &a text\nhistory: *a", ":1|another kind"},
		"two documents":    {"output: text\n---\noutput: json", "several documents"},
		"hex number":       {"transfer:\n  attempts: 0x10", `:2|"0x10"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			yaml := file(t, c.text)
			_, err := load(t, nil, "--config", yaml)
			first := problems(t, err)[0]
			for part := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(first, part) {
					t.Errorf("problem %q does not say %q", first, part)
				}
			}
			if !strings.Contains(first, yaml) || strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("problem %q does not name the file, or shows too much", first)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "comment": "# nothing\n", "empty list": "datasets: []"} {
		if _, err := load(t, nil, "--config", file(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingFileIsAProblemAmongOthers(t *testing.T) {
	_, err := load(t, nil, "--config", filepath.Join(t.TempDir(), "none.yaml"), "--history=some")
	wantProblems(t, err, `none.yaml" from --config`, `"some" from --history`)
}

func TestUnknownFlagsAreReportedTogether(t *testing.T) {
	var line commandLine
	parser, err := kong.New(&line, kong.Name("mirror"))
	if err != nil {
		t.Fatal(err)
	}
	context, err := config.ParseArgs(parser, []string{"sync", "--wrong=https://h?sig=S3CRET", "--history=current", "--typo"})
	wantProblems(t, err, "--wrong", "--typo")
	if context == nil || line.Sync.History == nil || *line.Sync.History != "current" {
		t.Error("the good flags were not parsed")
	}
	if _, err = config.ParseArgs(parser, []string{"sync", "--wrong", "value"}); err == nil || !strings.Contains(err.Error(), "--wrong") {
		t.Errorf("got %v", err)
	}
	_, err = config.ParseArgs(parser, []string{"nonsense"})
	wantProblems(t, err, "nonsense")
}

func TestAPIKeyIsReadAnew(t *testing.T) {
	settings, err := load(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	source := config.Source{Environ: []string{"PLOTI_API_KEY= from-env \n"}}
	if key, err := settings.APIKey(source)(); err != nil || key != "from-env" {
		t.Errorf("got %q, %v", key, err)
	}
	settings.FeedAPIKeyFile = file(t, "first\n")
	read := settings.APIKey(source)
	for _, want := range []string{"first", "second"} {
		if key, err := read(); err != nil || key != want {
			t.Errorf("got %q, %v, want %q", key, err, want)
		}
		if err := os.WriteFile(settings.FeedAPIKeyFile, []byte("second"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(settings.FeedAPIKeyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); err == nil {
		t.Error("a missing key file is no error")
	}
}
