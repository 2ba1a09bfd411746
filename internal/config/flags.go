package config

// Flags are all settings as flags, for kong. Embed them in a command, or embed those of the
// groups below that it uses. Every field is what was typed, nil when nothing was: values are
// read by Load, so that a bad one is reported together with all other problems. Placeholders
// are the defaults.
type Flags struct {
	FileFlags
	FeedFlags
	BucketFlags
	SelectFlags
	TransferFlags
	PublishFlags
	OutputFlags
}

// FileFlags name the file that settings are read from.
type FileFlags struct {
	Config *string `name:"config" group:"Settings" placeholder:"FILE" help:"Read settings from this YAML file. Flags and MIRROR_* variables go before it."`
}

// FeedFlags say how to reach the feed.
type FeedFlags struct {
	FeedURL         *string `name:"feed-url" group:"Feed" placeholder:"https://api.ploti.ai" help:"Address of the feed's API."`
	FeedAPIKeyFile  *string `name:"feed-api-key-file" group:"Feed" placeholder:"FILE" help:"File that holds the API key. Without it the key is taken from PLOTI_API_KEY."`
	FeedOverlap     *string `name:"feed-overlap" group:"Feed" placeholder:"10m" help:"How far back a pass looks again for releases."`
	FeedRebuildWait *string `name:"feed-rebuild-wait" group:"Feed" placeholder:"10m" help:"How long to wait for a current version whose files the feed is rebuilding."`
}

// BucketFlags say where the mirror stands.
type BucketFlags struct {
	Bucket            *string `name:"bucket" group:"Bucket" placeholder:"URL" help:"The bucket: s3://name/prefix?region=..., gs://name/prefix, azblob://container/prefix or file:///folder."`
	AcceptWeakLocking *bool   `name:"accept-weak-locking" group:"Bucket" help:"Use a bucket whose store ignores conditional writes. Then only one process at a time may write to it: no second run, and no approve, rollback or prune during one."`
	CAFile            *string `name:"ca-file" group:"Bucket" placeholder:"FILE" help:"PEM file of certificate authorities to trust beside the system's, for the feed, its links and the bucket."`
}

// SelectFlags say what a run works on.
type SelectFlags struct {
	Datasets    []string `name:"datasets" group:"Selection" placeholder:"GLOB,..." help:"Mirror only datasets whose id matches one of these globs. Default: all that the key's subscriptions deliver."`
	History     *string  `name:"history" group:"Selection" placeholder:"all" help:"Begin a dataset with all versions the feed has (all) or with the current one (current)."`
	Full        *bool    `name:"full" group:"Selection" help:"Look at every dataset, not only at those with releases since the last pass."`
	Shard       *string  `name:"shard" group:"Selection" placeholder:"0/1" help:"Work on shard i of n, as i/n, i from 0. Default in an Indexed Job: JOB_COMPLETION_INDEX/JOB_COMPLETIONS."`
	MaxDuration *string  `name:"max-duration" group:"Selection" placeholder:"none" help:"Stop after this time; the next run goes on from there."`
}

// ShardFlags are the part of SelectFlags that an audit takes, which has globs of its own.
type ShardFlags struct {
	Shard *string `name:"shard" group:"Selection" placeholder:"0/1" help:"Work on shard i of n, as i/n, i from 0. Default in an Indexed Job: JOB_COMPLETION_INDEX/JOB_COMPLETIONS."`
}

// TransferFlags say how files are moved.
type TransferFlags struct {
	TransferConcurrency *string  `name:"transfer-concurrency" group:"Transfer" placeholder:"16" help:"Files in flight at the same time."`
	TransferAttempts    *string  `name:"transfer-attempts" group:"Transfer" placeholder:"5" help:"Tries of one file that make no progress before it counts as failed."`
	TransferIdleTimeout *string  `name:"transfer-idle-timeout" group:"Transfer" placeholder:"30s" help:"Silence after which a download is started again."`
	TransferMinRate     *string  `name:"transfer-min-rate" group:"Transfer" placeholder:"1024" help:"Bytes a second below which a download is started again; none for no limit."`
	TransferRateWindow  *string  `name:"transfer-rate-window" group:"Transfer" placeholder:"60s" help:"Time over which the rate is averaged."`
	TransferBandwidth   *string  `name:"transfer-bandwidth" group:"Transfer" placeholder:"none" help:"Greatest rate of all downloads together, such as 50MiB/s."`
	AllowPrivateLinks   []string `name:"allow-private-links" group:"Transfer" placeholder:"CIDR,..." help:"Private networks that signed links may lead into, such as that of a VPC endpoint. Addresses are checked when they are dialled; behind a proxy only --links-hosts can check where a link leads."`
	LinksHosts          []string `name:"links-hosts" group:"Transfer" placeholder:"GLOB,..." help:"Hosts that signed links may lead to, such as *.s3.amazonaws.com, and no others. Behind a proxy this list stands in for the check of addresses, since the proxy resolves the names. Default: any public host."`
}

// PublishFlags say when the pointer moves and how runs keep out of each other's way.
type PublishFlags struct {
	PublishOnMajor *string `name:"publish-on-major" group:"Publishing" placeholder:"hold" help:"On a MAJOR schema change, hold the pointer until it is approved (hold) or move it (follow)."`
	LeaseTTL       *string `name:"lease-ttl" group:"Publishing" placeholder:"60s" help:"How long a dataset stays taken by a run that died."`
}

// OutputFlags say what is printed.
type OutputFlags struct {
	Output    *string `name:"output" short:"o" group:"Output" placeholder:"text" help:"What the result is printed as: text or json."`
	LogFormat *string `name:"log-format" group:"Output" placeholder:"auto" help:"auto (console on a terminal, else json), console or json."`
	LogLevel  *string `name:"log-level" group:"Output" placeholder:"info" help:"trace, debug, info, warn or error."`
}
