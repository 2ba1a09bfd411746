package feedsim

import "fmt"

// Presence says how a value that is not there is written.
type Presence int

// The ways to say nothing. PresenceDefault is each field's default, named at the field.
const (
	PresenceDefault Presence = iota
	PresenceNull
	PresenceAbsent
	PresenceEmpty // 0, "" or [], by the field's type
)

// Assume holds one switch for everything that the feed's documents leave open. The zero value is the likeliest feed.
type Assume struct {
	// FirstPrevious: a first version's previousVersion is null by default; absent, or empty for 0.
	FirstPrevious Presence
	// EmptyFileLists: a version's file list without entries is [] by default; null or absent.
	EmptyFileLists Presence
	// ManifestLists: a manifest's list without entries is [] by default; null or absent.
	ManifestLists Presence
	// LastCursor: nextCursor on the last page is null by default; absent, or empty for "".
	LastCursor Presence
	// SchemaKeys: a column's items, precision and geometry are absent by default where the type has none; null.
	SchemaKeys Presence
	// CurrentInList: a dataset's current in the list of datasets is there by default; null or absent.
	CurrentInList Presence
	// MissingInLinks: a /links answer with nothing missing has [] by default; null or absent.
	MissingInLinks Presence
	// KeyColumns: the key of a dataset without one is [] by default; null.
	KeyColumns Presence
	// FirstChange: a first schema's changeFromPrevious is null by default; absent.
	FirstChange Presence
	// NoPlace: the place of a dataset without one is null by default; absent.
	NoPlace Presence

	// UnknownColumnType: the schema calls JSON and array columns by a type that no document names.
	UnknownColumnType bool
	// SingleAsList: a version's schema and manifest entries arrive as lists of one.
	SingleAsList bool
	// PartNames says where an entry carries a part's manifest path.
	PartNames PartNames
	// LinksExpiry says where a /links answer carries expiresAt.
	LinksExpiry LinksExpiry
	// LinksReversed answers /links in the reverse of the order asked.
	LinksReversed bool
	// ManifestSignable: /links knows manifest.json, although the manifest does not list itself.
	ManifestSignable bool
	// Manifest is the shape of manifest.json.
	Manifest ManifestShape
	// IDMapFolder is the first segment of an id map's paths: "id_map" by default, or "idMap".
	IDMapFolder string
	// DatasetIDKey is the member of a list item that holds the dataset's id: "id" by default, or "datasetId".
	DatasetIDKey string
	// NumericCursor makes cursors plain offsets; by default they are opaque and full of characters to escape.
	NumericCursor bool
	// Errors is the shape of error bodies.
	Errors ErrorShape
	// BadKeyStatus answers a missing or wrong key: 401 by default, or 403.
	BadKeyStatus int
	// Busy makes the third API request of a feed's life fail once.
	Busy Busy
	// RowVersionIsLastChange: a snapshot's _ploti_version is each row's last change, not the version.
	RowVersionIsLastChange bool
	// RemovedAsObjects: changeFromPrevious.removed holds column objects, not names.
	RemovedAsObjects bool
	// ListWithdrawn: the list of versions keeps showing versions that were released again.
	ListWithdrawn bool
	// ListOmitsExpired: the list of versions leaves out versions past retention.
	ListOmitsExpired bool
	// KeptWithoutChanges: the last version of a MAJOR schema still answers past retention, its changes files lost,
	// although it had changes to apply.
	KeptWithoutChanges bool
	// UnsubscribedEverywhere: every call about an unsubscribed dataset answers 409, not only those that sign links.
	UnsubscribedEverywhere bool
	// UnsubscribedUnlisted: the list of datasets leaves out unsubscribed ones.
	UnsubscribedUnlisted bool
	// UpperHex writes every sha256 in upper case.
	UpperHex bool
	// ExpiredLink is how the links host refuses an expired link.
	ExpiredLink ExpiredLink
}

// PartNames says where an entry carries a part's manifest path.
type PartNames int

// In file; in path, without file; in path, with the bare file name in file.
const (
	PartInFile PartNames = iota
	PartInPathOnly
	PartInPathBesideFile
)

// LinksExpiry says where a /links answer carries expiresAt.
type LinksExpiry int

// At the top; on each entry; on both.
const (
	ExpiryOnTop LinksExpiry = iota
	ExpiryOnEntries
	ExpiryOnBoth
)

// ManifestShape is the shape of manifest.json.
type ManifestShape int

// A flat list under files; groups under files; groups at the top level.
const (
	ManifestFlat ManifestShape = iota
	ManifestGrouped
	ManifestGroupedOnTop
)

// ErrorShape is the shape of error bodies.
type ErrorShape int

// {"error":{"code","message"}}; {"code","message"}; {"error","message"}; RFC 9457 problem details; no body.
const (
	ErrorNested ErrorShape = iota
	ErrorFlat
	ErrorCodeAndMessage
	ErrorProblem
	ErrorBare
)

// Busy is an answer that asks the client to come back.
type Busy int

// None; 429 and 503 with Retry-After in seconds, as a date, or without.
const (
	BusyNever Busy = iota
	Busy429Seconds
	Busy429Date
	Busy429Bare
	Busy503Seconds
	Busy503Bare
)

// ExpiredLink is how the links host refuses an expired link.
type ExpiredLink int

// 403 with AccessDenied as XML, with a page of HTML or empty; 400 with ExpiredRequest or ExpiredToken as XML; 401.
const (
	ExpiredAccessDenied ExpiredLink = iota
	ExpiredHTML
	ExpiredEmpty
	ExpiredRequest400
	ExpiredToken400
	ExpiredUnauthorized
)

// Alternative is one choice that differs from the zero Assume.
type Alternative struct {
	Name  string
	Apply func(*Assume)
}

// Alternatives returns every choice of every switch but the defaults, so that a test can run under each.
func Alternatives() []Alternative {
	var all []Alternative
	add := func(name string, apply func(*Assume)) { all = append(all, Alternative{Name: name, Apply: apply}) }
	flag := func(name string, field func(*Assume) *bool) { add(name, func(a *Assume) { *field(a) = true }) }

	presences := map[Presence]string{PresenceNull: "null", PresenceAbsent: "absent", PresenceEmpty: "empty"}
	presence := func(name string, field func(*Assume) *Presence, choices ...Presence) {
		for _, choice := range choices {
			add(name+"-"+presences[choice], func(a *Assume) { *field(a) = choice })
		}
	}
	presence("first-previous", func(a *Assume) *Presence { return &a.FirstPrevious }, PresenceAbsent, PresenceEmpty)
	presence("empty-file-lists", func(a *Assume) *Presence { return &a.EmptyFileLists }, PresenceNull, PresenceAbsent)
	presence("manifest-lists", func(a *Assume) *Presence { return &a.ManifestLists }, PresenceNull, PresenceAbsent)
	presence("last-cursor", func(a *Assume) *Presence { return &a.LastCursor }, PresenceAbsent, PresenceEmpty)
	presence("schema-keys", func(a *Assume) *Presence { return &a.SchemaKeys }, PresenceNull)
	presence("current-in-list", func(a *Assume) *Presence { return &a.CurrentInList }, PresenceNull, PresenceAbsent)
	presence("links-missing", func(a *Assume) *Presence { return &a.MissingInLinks }, PresenceNull, PresenceAbsent)
	presence("key-columns", func(a *Assume) *Presence { return &a.KeyColumns }, PresenceNull)
	presence("first-change", func(a *Assume) *Presence { return &a.FirstChange }, PresenceAbsent)
	presence("no-place", func(a *Assume) *Presence { return &a.NoPlace }, PresenceAbsent)

	flag("unknown-column-type", func(a *Assume) *bool { return &a.UnknownColumnType })
	flag("schema-and-manifest-as-lists", func(a *Assume) *bool { return &a.SingleAsList })
	flag("links-reversed", func(a *Assume) *bool { return &a.LinksReversed })
	flag("manifest-signable", func(a *Assume) *bool { return &a.ManifestSignable })
	flag("numeric-cursor", func(a *Assume) *bool { return &a.NumericCursor })
	flag("row-version-is-last-change", func(a *Assume) *bool { return &a.RowVersionIsLastChange })
	flag("removed-as-objects", func(a *Assume) *bool { return &a.RemovedAsObjects })
	flag("list-withdrawn", func(a *Assume) *bool { return &a.ListWithdrawn })
	flag("list-omits-expired", func(a *Assume) *bool { return &a.ListOmitsExpired })
	flag("kept-without-changes", func(a *Assume) *bool { return &a.KeptWithoutChanges })
	flag("unsubscribed-everywhere", func(a *Assume) *bool { return &a.UnsubscribedEverywhere })
	flag("unsubscribed-unlisted", func(a *Assume) *bool { return &a.UnsubscribedUnlisted })
	flag("upper-hex", func(a *Assume) *bool { return &a.UpperHex })

	add("part-in-path-only", func(a *Assume) { a.PartNames = PartInPathOnly })
	add("part-in-path-beside-file", func(a *Assume) { a.PartNames = PartInPathBesideFile })
	add("links-expiry-on-entries", func(a *Assume) { a.LinksExpiry = ExpiryOnEntries })
	add("links-expiry-on-both", func(a *Assume) { a.LinksExpiry = ExpiryOnBoth })
	add("manifest-grouped", func(a *Assume) { a.Manifest = ManifestGrouped })
	add("manifest-grouped-on-top", func(a *Assume) { a.Manifest = ManifestGroupedOnTop })
	add("id-map-folder-camel", func(a *Assume) { a.IDMapFolder = "idMap" })
	add("dataset-id-key", func(a *Assume) { a.DatasetIDKey = "datasetId" })
	add("bad-key-403", func(a *Assume) { a.BadKeyStatus = 403 })
	return append(all, numberedAlternatives()...)
}

func numberedAlternatives() []Alternative {
	var all []Alternative
	for shape := ErrorFlat; shape <= ErrorBare; shape++ {
		all = append(all, Alternative{fmt.Sprintf("errors-%d", shape), func(a *Assume) { a.Errors = shape }})
	}
	for busy := Busy429Seconds; busy <= Busy503Bare; busy++ {
		all = append(all, Alternative{fmt.Sprintf("busy-%d", busy), func(a *Assume) { a.Busy = busy }})
	}
	for style := ExpiredHTML; style <= ExpiredUnauthorized; style++ {
		all = append(all, Alternative{fmt.Sprintf("expired-link-%d", style), func(a *Assume) { a.ExpiredLink = style }})
	}
	return all
}
