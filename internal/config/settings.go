package config

import (
	"net/netip"
	"time"
)

// Settings are the settings of a run, checked.
type Settings struct {
	FeedURL         string
	FeedAPIKeyFile  string        // empty: the key is in PLOTI_API_KEY
	FeedOverlap     time.Duration // how far back an incremental pass looks again
	FeedRebuildWait time.Duration // how long a version being rebuilt is waited for

	Bucket string // address of the bucket; its parameters are the store's to check
	// AcceptWeakLocking goes on with a store that ignores conditional writes.
	AcceptWeakLocking bool
	CAFile            string // PEM file of further certificate authorities; empty: the system's only

	Datasets    []string // globs of dataset ids; empty: all
	History     string   // HistoryAll or HistoryCurrent
	Full        bool
	ShardIndex  int           // from 0, below ShardOf
	ShardOf     int           // 1: not sharded
	MaxDuration time.Duration // zero: no limit

	TransferConcurrency int // files in flight
	TransferAttempts    int // tries of one file without progress
	TransferIdleTimeout time.Duration
	TransferMinRate     int64 // bytes a second over TransferRateWindow; zero: none
	TransferRateWindow  time.Duration
	TransferBandwidth   int64 // bytes a second over all files; zero: no limit
	AllowPrivateLinks   []netip.Prefix
	LinksHosts          []string // globs of host names, in lower case; empty: any

	PublishOnMajor string // OnMajorHold or OnMajorFollow
	LeaseTTL       time.Duration

	Output    string // OutputText or OutputJSON
	LogFormat string // "auto", "console" or "json"
	LogLevel  string // "trace", "debug", "info", "warn" or "error"
}

// The words that settings can be.
const (
	HistoryAll     = "all"
	HistoryCurrent = "current"
	OnMajorHold    = "hold"
	OnMajorFollow  = "follow"
	OutputText     = "text"
	OutputJSON     = "json"
)
