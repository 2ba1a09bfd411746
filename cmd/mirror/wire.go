package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/open"
	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/netclient"
	"feedmirror/internal/tables"
	"feedmirror/internal/telemetry"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// app is what commands share: settings, log, progress, and what they ask of each side.
type app struct {
	environment
	settings config.Settings
	log      zerolog.Logger
	guard    *telemetry.Guard
	progress telemetry.Progress
	counts   counts
	run      string
	stop     []func()
}

type counts struct {
	feed     feed.Counts
	bucket   bucket.Counts
	transfer transfer.Counts
}

// Counts implements mirror.Requests.
func (c *counts) Counts() mirror.RequestCounts {
	return mirror.RequestCounts{
		Feed: c.feed.Feed.Load(), Links: c.feed.Links.Load(), Source: c.transfer.Requests.Load(),
		BucketRead: c.bucket.Read.Load(), BucketWrite: c.bucket.Write.Load(), BucketList: c.bucket.List.Load(),
	}
}

// watched says whether a command is long enough for somebody to watch it.
type watched bool

// newApp reads the settings of a command, which needs a bucket, and sets up what is printed while
// it runs.
func newApp(flags any, env environment, watch watched) (*app, error) {
	settings, err := config.Load(flags, config.Source{Environ: env.environ}, "bucket")
	if err != nil {
		return nil, err
	}
	if err := open.Check(settings.Bucket); err != nil {
		return nil, err
	}
	a := &app{environment: env, settings: settings, run: newRun(env.now())}
	if err := a.startLog(watch); err != nil {
		return nil, err
	}
	return a, nil
}

// newRun returns a run id: its time first, so that runs sort, and chance behind.
func newRun(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // documented never to fail
	return now.UTC().Format("20060102t150405") + "-" + hex.EncodeToString(random[:])
}

func (a *app) startLog(watch watched) error {
	a.progress = telemetry.Silent{}
	bars := bool(watch) && a.terminal && a.settings.LogFormat != "json" && a.settings.Output == config.OutputText
	out := a.err
	if bars {
		ticker := time.NewTicker(200 * time.Millisecond)
		terminal := telemetry.NewTerminal(a.err, ticker.C, a.now)
		a.progress, out = terminal, terminal
		a.stop = append(a.stop, terminal.Close, ticker.Stop)
	}
	a.guard = telemetry.NewGuard(out)
	log, err := telemetry.NewLogger(a.guard, telemetry.LogOptions{
		Format: a.settings.LogFormat, Level: a.settings.LogLevel, Terminal: a.terminal, Color: a.terminal})
	if err != nil {
		return err
	}
	a.log = log
	if bool(watch) && !bars {
		ticker := time.NewTicker(30 * time.Second)
		lines := telemetry.NewLines(log, ticker.C, a.now)
		a.progress = lines
		a.stop = append(a.stop, lines.Close, ticker.Stop)
	}
	return nil
}

// close ends progress, so that what is printed next stands below it.
func (a *app) close() {
	for _, stop := range a.stop {
		stop()
	}
	a.stop = nil
}

// openBucket opens the bucket; mustExist refuses a folder that is not there.
func (a *app) openBucket(ctx context.Context, mustExist bool) (bucket.Store, error) {
	options, err := a.bucketOptions(mustExist)
	if err != nil {
		return nil, err
	}
	return open.Open(ctx, a.settings.Bucket, options)
}

// checkLayout refuses a bucket that must not be written to: one of a newer layout, or of a store
// that ignores conditional writes where that is not accepted.
func (a *app) checkLayout(ctx context.Context, store bucket.Store) error {
	layout, err := state.LoadLayout(ctx, store)
	if err != nil {
		return err
	}
	return layout.CheckLocking(a.settings.AcceptWeakLocking)
}

// bucketSilence is longer than any store takes to answer and short enough for a person who waits.
const bucketSilence = 2 * time.Minute

func (a *app) bucketOptions(mustExist bool) (open.Options, error) {
	client, err := netclient.New(netclient.Options{CAFile: a.settings.CAFile, Connections: a.settings.TransferConcurrency + 4, Silence: bucketSilence})
	return open.Options{HTTPClient: client, Counts: &a.counts.bucket, MustExist: mustExist, LookFirst: a.settings.AcceptWeakLocking, LockWait: a.settings.LeaseTTL}, err
}

func (a *app) probe(ctx context.Context) (bucket.ProbeReport, error) {
	options, err := a.bucketOptions(false)
	if err != nil {
		return bucket.ProbeReport{}, err
	}
	store, err := open.Bare(ctx, a.settings.Bucket, options)
	if err != nil {
		return bucket.ProbeReport{}, err
	}
	defer store.Close() //nolint:errcheck // nothing of a probe is left open
	return bucket.Probe(ctx, store, bucket.ProbeOptions{Run: a.run})
}

// storeURL returns the bucket's URL as layout.json names it: without settings that do not say
// which bucket it is.
func storeURL(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	kept := url.Values{}
	for _, name := range []string{"endpoint", "account", "domain"} {
		if value := parsed.Query().Get(name); value != "" {
			kept.Set(name, value)
		}
	}
	parsed.RawQuery = kept.Encode()
	parsed.Path = strings.TrimSuffix(parsed.Path, "/")
	return parsed.String()
}

// newFeed returns the feed's client.
func (a *app) newFeed() (*feed.Client, error) {
	client, err := netclient.New(netclient.Options{CAFile: a.settings.CAFile, RefuseRedirects: true, Connections: 8})
	if err != nil {
		return nil, err
	}
	key := a.settings.APIKey(config.Source{Environ: a.environ})
	text, err := key()
	if err == nil && text == "" {
		err = errors.New("no API key is set")
	}
	if err != nil {
		return nil, &fault.Error{Op: "read API key", Side: fault.SideConfig, Kind: fault.FeedUnfit, Err: err, Hint: hintFor(err)}
	}
	return feed.New(feed.Options{
		BaseURL: a.settings.FeedURL, Key: a.guard.HideKey(key), HTTP: client,
		UserAgent: "feedmirror/" + version, Counts: &a.counts.feed,
	})
}

func hintFor(err error) string {
	if hint := fault.HintOf(err); hint != "" {
		return hint
	}
	return "Set PLOTI_API_KEY, or name a file with --feed-api-key-file."
}

// transferOptions returns how files are moved into store.
func (a *app) transferOptions(store bucket.Store, linker transfer.Linker) (transfer.Options, error) {
	client, err := netclient.New(netclient.Options{CAFile: a.settings.CAFile, HTTP1Only: true, RefuseRedirects: true, Connections: a.settings.TransferConcurrency})
	if err != nil {
		return transfer.Options{}, err
	}
	source, ok := client.Transport.(*http.Transport)
	if !ok {
		return transfer.Options{}, fmt.Errorf("set up downloads: a client without a transport of its own")
	}
	transfer.Guard(source, a.linksGuard())
	minRate := a.settings.TransferMinRate
	if minRate == 0 {
		minRate = -1 // none, where zero means the default
	}
	return transfer.Options{
		HTTP: source, Sink: store, Linker: linker, Concurrency: a.settings.TransferConcurrency, Attempts: a.settings.TransferAttempts,
		IdleTimeout: a.settings.TransferIdleTimeout, MinRate: minRate, RateWindow: a.settings.TransferRateWindow,
		Bandwidth: a.settings.TransferBandwidth, UserAgent: "feedmirror/" + version,
		Progress: a.progress.Bytes, Counts: &a.counts.transfer,
	}, nil
}

// linksGuard says where signed links may lead.
func (a *app) linksGuard() transfer.GuardOptions {
	options := transfer.GuardOptions{Allowed: a.settings.AllowPrivateLinks, Hosts: a.settings.LinksHosts, Unchecked: func() {
		a.log.Warn().Msg("links are fetched through a proxy, which resolves their hosts: where they lead is not checked unless --links-hosts names the hosts they may lead to")
	}}
	if feedURL, err := url.Parse(a.settings.FeedURL); err == nil {
		options.Loopback = netclient.IsLoopback(feedURL.Hostname())
	}
	return options
}

// passOptions returns everything that a pass works with.
func (a *app) passOptions(ctx context.Context) (mirror.Options, error) {
	client, err := a.newFeed()
	if err != nil {
		return mirror.Options{}, err
	}
	store, err := a.openBucket(ctx, false)
	if err != nil {
		return mirror.Options{}, err
	}
	a.stop = append(a.stop, func() { _ = store.Close() }) // nothing is buffered in a store
	moving, err := a.transferOptions(store, client)
	if err != nil {
		return mirror.Options{}, err
	}
	s := a.settings
	return mirror.Options{
		Settings: mirror.Settings{
			Filter: s.Datasets, ShardIndex: s.ShardIndex, ShardOf: s.ShardOf, History: manifest.History(s.History), Full: s.Full,
			FullEvery: 24 * time.Hour, Overlap: s.FeedOverlap, RebuildWait: s.FeedRebuildWait, LeaseTTL: s.LeaseTTL, AcceptWeakLocking: s.AcceptWeakLocking,
			OnMajor: manifest.OnMajor(s.PublishOnMajor), AtOnce: min(8, s.TransferConcurrency),
		},
		Feed: client, FeedURL: s.FeedURL, Store: store, StoreURL: storeURL(s.Bucket), Probe: a.probe,
		Mover: transfer.New(moving), Manifests: mirror.ManifestReader{Options: moving}, Observer: a.progress, Log: a.log,
		Run: a.run, Host: a.host, Tool: "mirror " + version, Now: a.now, Pause: pause, Requests: &a.counts, Tables: a.tables(store),
	}, nil
}

// tables returns what writes a bucket's tables.
func (a *app) tables(store bucket.Store) *tables.Projector {
	return &tables.Projector{Store: store, Footers: tables.StoredFooters{Reader: store}, Now: a.now, NewID: newID, Engine: "mirror " + version}
}

// newID returns a random UUID of version 4.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// pause waits, or returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// printJSON prints the one final object of --output json.
func printJSON(env environment, value any) error {
	encoder := json.NewEncoder(env.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}
