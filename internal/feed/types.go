package feed

import (
	"time"

	"feedmirror/manifest"
)

// Dataset is one item of the list of datasets, or a dataset asked for by name.
type Dataset struct {
	ID      string          // checked by manifest.CheckDataset
	Current manifest.Number // zero when the answer does not say
	// PublishedAt is the release time of the current version; zero when the answer does not say.
	PublishedAt time.Time
}

// Listing says what a walk over the list of datasets saw.
type Listing struct {
	Items    int       // usable items
	Bad      []error   // items with an unusable id or version; the others were visited
	Date     time.Time // the feed's Date header on the first page; zero when it sent none
	Greatest time.Time // the greatest PublishedAt in the list; zero when none was sent
}

// Entry is one file in a version's answer or in an answer of signed links.
type Entry struct {
	Kind        manifest.Kind // meaningful in a version's answer only; "" for an attachment
	Name        string        // manifest path or attachment name: what /links is asked for
	Filename    string
	ContentType string
	Size        int64 // bytes
	SHA256      manifest.SHA256
	URL         string // signed; never to be logged, put into an error or stored
}

// Answer is a version's answer without its entries, which are handed to a visitor.
type Answer struct {
	Version  manifest.Version
	Manifest Entry // the manifest's own entry, with its link
	// Lifetime is how long links of this answer live, by the feed's own clock (expiresAt less the
	// answer's Date); zero when the answer does not say.
	Lifetime time.Duration
	Received time.Time // when the answer began, with a monotonic reading
}

// Links is an answer of POST .../links.
type Links struct {
	Entries  []Entry
	Missing  []string
	Lifetime time.Duration // of the entry that expires first, as in Answer
	Received time.Time     // with a monotonic reading
}
