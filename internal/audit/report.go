package audit

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"feedmirror/manifest"
)

// Level says how deep an audit looks. Each level includes those before it.
type Level string

// The levels.
const (
	LevelChain     Level = "chain"     // documents, hashes of records, pointers
	LevelInventory Level = "inventory" // + every object exists with its size
	LevelChecksum  Level = "checksum"  // + the checksum that the store itself keeps
	LevelBytes     Level = "bytes"     // + the bytes hash to the manifest
	LevelRows      Level = "rows"      // + what the Parquet files say, and the changes replayed
)

// Levels are all levels, the shallowest first.
func Levels() []Level {
	return []Level{LevelChain, LevelInventory, LevelChecksum, LevelBytes, LevelRows}
}

func (l Level) includes(other Level) bool {
	return slices.Index(Levels(), l) >= slices.Index(Levels(), other)
}

// Kind names a finding for programs.
type Kind string

// The kinds of findings.
const (
	KindMissing         Kind = "missing"         // an object that a record names is not there
	KindWrongSize       Kind = "wrong-size"      // it is there with another size
	KindCorrupt         Kind = "corrupt"         // its bytes hash to something else, read twice
	KindUnreadable      Kind = "unreadable"      // it could not be read, tried twice: nothing is known about its bytes
	KindArchived        Kind = "archived"        // in an archive tier: its bytes were not checked
	KindMoved           Kind = "moved"           // it was written while the audit looked at it, and was not judged
	KindChecksum        Kind = "checksum"        // the store's own checksum is another one
	KindEncoded         Kind = "encoded"         // kept with a content encoding: readers get other bytes
	KindRecord          Kind = "record"          // a record that cannot be used
	KindChain           Kind = "chain"           // a record does not lead to the one it names
	KindPointer         Kind = "pointer"         // a pointer that does not lead to a whole version
	KindManifest        Kind = "manifest"        // a record and its manifest contradict each other
	KindSums            Kind = "sums"            // SHA256SUMS contradicts the record
	KindIndex           Kind = "index"           // an attachment index contradicts its manifest
	KindDocument        Kind = "document"        // another document of the mirror that cannot be used
	KindAttachmentName  Kind = "attachment-name" // an object among the attachments that is not named by a hash
	KindForeign         Kind = "foreign"         // a key that does not belong into the layout
	KindUncommittedOld  Kind = "uncommitted"     // files of a version that was never committed
	KindOrphan          Kind = "orphan"          // a data object that no manifest names
	KindUnlinked        Kind = "unlinked"        // a record that no later one names: a back-fill or a rival's
	KindInProgress      Kind = "in-progress"     // files of a version that is being copied
	KindHistoryChanged  Kind = "history-changed" // another manifest was published under a committed number
	KindNotAtFeed       Kind = "not-at-feed"     // the feed does not have it any more, so that nothing was compared
	KindNotMirrored     Kind = "not-mirrored"    // a version that the feed has and the bucket has no record of
	KindWithdrawnRecord Kind = "withdrawn"       // the feed released the version again
	KindDoubt           Kind = "doubt"           // content that contradicts the feed's own facts
	KindTable           Kind = "table"           // a table's log that engines trip over, or that misleads them
	KindTableBehind     Kind = "table-behind"    // a table that does not show yet what is published
	KindNoTable         Kind = "no-table"        // a version that no table can show
	KindMisread         Kind = "misread"         // a file that engines read with a table, and that no record names
	KindColumns         Kind = "columns"         // columns that some engines cannot tell apart, or find in another order
)

// Finding is something that is wrong, or worth knowing.
type Finding struct {
	// ID names the finding as long as its kind, its key and its facts stay the same, however a later
	// release words it.
	ID      string `json:"id"`
	Kind    Kind   `json:"kind"`
	Key     string `json:"key"`
	Dataset string `json:"dataset,omitempty"`
	Version int64  `json:"version,omitempty"`
	// Facts are what was found, for programs: a hash, a size, the class of an error. No prose.
	Facts  string `json:"facts,omitempty"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	// RecordIDs are the first twenty records that it is about, and Columns the columns; level rows only.
	RecordIDs []string `json:"recordIds,omitempty"`
	Columns   []string `json:"columns,omitempty"`
	// Acknowledged says who took note of it: it stays visible and decides no exit code.
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
}

// Acknowledgement is a person's word about a finding.
type Acknowledgement struct {
	Who    string    `json:"who"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// identify returns a finding with its ID: the first 12 hex digits of a hash of kind, key, version
// and facts. The key names the dataset, where there is one.
func identify(f Finding) Finding {
	text := strings.Join([]string{string(f.Kind), f.Key, strconv.FormatInt(f.Version, 10), f.Facts}, "\x00")
	f.ID = manifest.SumBytes([]byte(text)).String()[:12]
	return f
}

// Checked counts what was looked at, and found good or bad.
type Checked struct {
	Tables      int64 `json:"tables"` // logs of Delta tables, each read from its first commit on
	Datasets    int64 `json:"datasets"`
	Records     int64 `json:"records"`
	Objects     int64 `json:"objects"`     // distinct keys
	Attachments int64 `json:"attachments"` // of the objects
	// Carried are the names of attachments that versions took over from the one before without looking
	// at the objects. From level inventory on the objects are looked at here.
	Carried int64 `json:"carried"`
	Bytes   int64 `json:"bytes"` // read and hashed
	// Versions are those whose rows were read, Rows the rows of their snapshots, and Replays the versions
	// whose changes were replayed; level rows only.
	Versions int64 `json:"versions,omitempty"`
	Rows     int64 `json:"rows,omitempty"`
	Replays  int64 `json:"replays,omitempty"`
}

// NotChecked counts objects by why this level could not check them.
type NotChecked struct {
	Objects     int64 `json:"objects"`     // all of them
	NoChecksum  int64 `json:"noChecksum"`  // the store keeps no sha256, and the level reads no bytes
	Archived    int64 `json:"archived"`    // in an archive tier, told as a note too
	Unreadable  int64 `json:"unreadable"`  // told as a finding too
	NoRecord    int64 `json:"noRecord"`    // what names them, a record or an index, could not be used
	Carried     int64 `json:"carried"`     // names of attachments that versions took over, and that this level does not look at
	Pruned      int64 `json:"pruned"`      // records whose files were deleted on purpose
	Fresh       int64 `json:"fresh"`       // the ledger says that they were found good a short time ago
	Budget      int64 `json:"budget"`      // due, and beyond the budget of bytes
	Interrupted int64 `json:"interrupted"` // not reached
	// Replays are versions whose rows were read without a replay, for the reason that the report gives;
	// Versions are those whose rows were not read at all. Level rows only.
	Replays  int64 `json:"replays,omitempty"`
	Versions int64 `json:"versions,omitempty"`
}

// Report is the result of an audit.
type Report struct {
	Level      Level      `json:"level"`
	Status     string     `json:"status"` // clean, findings, acknowledged (all of them), stopped (by the budget), incomplete
	Exit       int        `json:"exit"`
	Started    time.Time  `json:"started"`
	Seconds    float64    `json:"seconds"`
	Checked    Checked    `json:"checked"`
	NotChecked NotChecked `json:"notChecked"`
	Compared   int64      `json:"compared,omitempty"` // versions whose manifest the feed was asked for
	Rows       *Rows      `json:"rows,omitempty"`     // level rows only
	Findings   []Finding  `json:"findings"`
	Notes      []Finding  `json:"notes"` // worth knowing, wrong in nothing
}

// collector gathers what many goroutines find.
type collector struct {
	mu     sync.Mutex
	report Report
}

func (c *collector) find(f Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Findings = append(c.report.Findings, identify(f))
}

func (c *collector) note(f Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Notes = append(c.report.Notes, identify(f))
}

func (c *collector) count(change func(*Checked, *NotChecked)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.report.Checked, &c.report.NotChecked)
}

func (c *collector) finish() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Settle()
	return c.report
}

// Open returns how many findings nobody acknowledged.
func (r *Report) Open() int {
	open := 0
	for _, f := range r.Findings {
		if f.Acknowledged == nil {
			open++
		}
	}
	return open
}

// AddNote adds something that is worth knowing and wrong in nothing.
func (r *Report) AddNote(f Finding) { r.Notes = append(r.Notes, identify(f)) }

// Settle sorts the report and derives status and exit code from what is in it.
func (r *Report) Settle() {
	for _, list := range [][]Finding{r.Findings, r.Notes} {
		slices.SortStableFunc(list, func(a, b Finding) int {
			if order := strings.Compare(a.Key, b.Key); order != 0 {
				return order
			}
			return strings.Compare(string(a.Kind), string(b.Kind))
		})
	}
	switch {
	case r.Open() > 0:
		r.Status, r.Exit = "findings", ExitFindings
	case r.NotChecked.Budget > 0:
		r.Status, r.Exit = "stopped", ExitStopped
	case len(r.Findings) > 0:
		r.Status, r.Exit = "acknowledged", 0
	default:
		r.Status, r.Exit = "clean", 0
	}
}
