package config

import (
	"strings"
	"time"
)

// setting is one setting: its names, its default and how its text is read. A default is text as
// well and goes the same way; an empty one leaves the zero value.
type setting struct {
	flag    string // without dashes
	yaml    string // path in the file, segments separated by dots
	initial string
	allowed string // completes "want ..."
	read    func(*Settings, string) error
	list    bool // a YAML list is taken, and joined with commas
}

// env returns the name of a setting's environment variable.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}

const week = 7 * 24 * time.Hour

// table returns all settings in the order in which problems are reported.
func table() []setting {
	return []setting{
		{flag: "feed-url", yaml: "feed.url", initial: "https://api.ploti.ai", allowed: "an https address, or http on loopback", read: readFeedURL},
		{flag: "feed-api-key-file", yaml: "feed.api_key_file", allowed: "a path", read: path(func(s *Settings) *string { return &s.FeedAPIKeyFile })},
		{flag: "feed-overlap", yaml: "feed.overlap", initial: "10m", allowed: "0 to 7 days, such as 10m", read: duration(func(s *Settings) *time.Duration { return &s.FeedOverlap }, 0, week)},
		{flag: "feed-rebuild-wait", yaml: "feed.rebuild_wait", initial: "10m", allowed: "0 to 1 day, such as 10m", read: duration(func(s *Settings) *time.Duration { return &s.FeedRebuildWait }, 0, 24*time.Hour)},
		{flag: "bucket", yaml: "bucket", allowed: "s3://name/prefix, gs://name/prefix, azblob://container/prefix or file:///folder", read: readBucket},
		{flag: "accept-weak-locking", yaml: "accept_weak_locking", initial: "false", allowed: "true or false", read: yes(func(s *Settings) *bool { return &s.AcceptWeakLocking })},
		{flag: "ca-file", yaml: "ca_file", allowed: "a path", read: path(func(s *Settings) *string { return &s.CAFile })},
		{flag: "datasets", yaml: "datasets", allowed: "globs of dataset ids, such as ds_*_permits", read: readGlobs, list: true},
		{flag: "history", yaml: "history", initial: HistoryAll, allowed: "all or current", read: word(func(s *Settings) *string { return &s.History }, HistoryAll, HistoryCurrent)},
		{flag: "full", yaml: "full", initial: "false", allowed: "true or false", read: yes(func(s *Settings) *bool { return &s.Full })},
		{flag: "shard", yaml: "shard", initial: "0/1", allowed: "i/n with i from 0 to n-1 and n up to 10000", read: readShard},
		{flag: "max-duration", yaml: "max_duration", initial: none, allowed: "a time above 0, such as 50m, or none", read: readMaxDuration},
		{flag: "transfer-concurrency", yaml: "transfer.concurrency", initial: "16", allowed: "a whole number from 1 to 256", read: whole(func(s *Settings) *int { return &s.TransferConcurrency }, 1, 256)},
		{flag: "transfer-attempts", yaml: "transfer.attempts", initial: "5", allowed: "a whole number from 1 to 100", read: whole(func(s *Settings) *int { return &s.TransferAttempts }, 1, 100)},
		{flag: "transfer-idle-timeout", yaml: "transfer.idle_timeout", initial: "30s", allowed: "1 second to 1 hour, such as 30s", read: duration(func(s *Settings) *time.Duration { return &s.TransferIdleTimeout }, time.Second, time.Hour)},
		{flag: "transfer-min-rate", yaml: "transfer.min_rate", initial: "1024", allowed: "bytes a second, such as 1KiB, or none", read: rate(func(s *Settings) *int64 { return &s.TransferMinRate })},
		{flag: "transfer-rate-window", yaml: "transfer.rate_window", initial: "60s", allowed: "1 second to 1 hour, such as 60s", read: duration(func(s *Settings) *time.Duration { return &s.TransferRateWindow }, time.Second, time.Hour)},
		{flag: "transfer-bandwidth", yaml: "transfer.bandwidth", initial: none, allowed: "bytes a second, such as 50MiB/s, or none", read: rate(func(s *Settings) *int64 { return &s.TransferBandwidth })},
		{flag: "allow-private-links", yaml: "allow_private_links", allowed: "networks, such as 10.0.0.0/8,fd00::/8", read: readNetworks, list: true},
		{flag: "links-hosts", yaml: "links_hosts", allowed: "host names without ports, such as *.s3.amazonaws.com", read: readHosts, list: true},
		{flag: "publish-on-major", yaml: "publish.on_major", initial: OnMajorHold, allowed: "hold or follow", read: word(func(s *Settings) *string { return &s.PublishOnMajor }, OnMajorHold, OnMajorFollow)},
		{flag: "lease-ttl", yaml: "lease.ttl", initial: "60s", allowed: "1 second to 1 day, such as 60s", read: duration(func(s *Settings) *time.Duration { return &s.LeaseTTL }, time.Second, 24*time.Hour)},
		{flag: "output", yaml: "output", initial: OutputText, allowed: "text or json", read: word(func(s *Settings) *string { return &s.Output }, OutputText, OutputJSON)},
		{flag: "log-format", yaml: "log.format", initial: "auto", allowed: "auto, console or json", read: word(func(s *Settings) *string { return &s.LogFormat }, "auto", "console", "json")},
		{flag: "log-level", yaml: "log.level", initial: "info", allowed: "trace, debug, info, warn or error", read: word(func(s *Settings) *string { return &s.LogLevel }, "trace", "debug", "info", "warn", "error")},
	}
}
