package state

import (
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// Revised is embedded in every document that is swapped. It is one higher at each write, so
// that a writer that slept can tell a document that looks the same from one that is the same.
type Revised struct {
	Revision int64 `json:"revision"`
}

func (r *Revised) revision() *int64 { return &r.Revision }

// Pointer is current/<dataset>.json: what readers without a table engine read.
type Pointer struct {
	Revised
	Dataset         string                 `json:"dataset"`
	Version         manifest.Number        `json:"version"`
	PreviousVersion manifest.Number        `json:"previousVersion"` // the version published before this one; zero at first
	SchemaVersion   manifest.SchemaVersion `json:"schemaVersion"`
	PublishedAt     time.Time              `json:"publishedAt"` // by the feed
	MovedAt         time.Time              `json:"movedAt"`     // by this bucket's mirror
	Move            int64                  `json:"move"`        // how many moves this pointer made, the first publication included
	MovedBy         Action                 `json:"movedBy"`     // what made the last of them
	Record          manifest.ObjectRef     `json:"record"`
	Manifest        manifest.ObjectRef     `json:"manifest"`
	Snapshot        []string               `json:"snapshot"`
	Schema          *SchemaRef             `json:"schema"`
	Held            *Held                  `json:"held"`
	Withdrawn       bool                   `json:"withdrawn"`
	Pinned          bool                   `json:"pinned"`
	Retired         bool                   `json:"retired,omitempty"` // by a decision: no pass asks the feed about it
	// Decisions are the keys of the decisions that this pointer already obeys, newest last; at
	// most maxDecisions of them.
	Decisions []string `json:"decisions,omitempty"`
	// Left are the versions that readers were led away from, newest last; at most maxDepartures of
	// them. A prune counts its grace from here.
	Left []Departure `json:"left,omitempty"`
}

// Departure says when the pointer left a version, and when and how it had come to it.
type Departure struct {
	Version manifest.Number `json:"version"`
	At      time.Time       `json:"at"`
	Came    time.Time       `json:"came"`
	Move    int64           `json:"move"` // number of the move that led there
	By      Action          `json:"by"`
}

const (
	maxDecisions  = 32
	maxDepartures = 64
)

// SchemaRef names the schema of the published version.
type SchemaRef struct {
	Key string `json:"key"`
}

// Held is the first version that waits for a person.
type Held struct {
	manifest.Hold
	Since time.Time `json:"since"`
}

// Lease says who works on a dataset. It saves double work and nothing rests on it.
type Lease struct {
	Revised
	Owner string    `json:"owner"` // run id
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // in the past once given back
}

// Layout is _mirror/layout.json: which layout this bucket has and what its store guarantees.
type Layout struct {
	Revised
	Layout     int               `json:"layout"`
	FeedURL    string            `json:"feedUrl"`
	Store      string            `json:"store"` // the bucket's URL without credentials; another one means a moved bucket
	Guarantees bucket.Guarantees `json:"guarantees"`
	ProbedAt   time.Time         `json:"probedAt"`
	CreatedAt  time.Time         `json:"createdAt"`
	Tool       string            `json:"tool"`
}

// Gone is gone.json: the feed no longer had the version when it was first asked for.
type Gone struct {
	Revised
	Dataset string             `json:"dataset"`
	Version manifest.Number    `json:"version"`
	Reason  manifest.GapReason `json:"reason"` // expired or withdrawn
	Message string             `json:"message"`
	At      time.Time          `json:"at"`
}

// Withdrawn is withdrawn.json: the feed released a version again that the bucket holds.
type Withdrawn struct {
	Revised
	Dataset string          `json:"dataset"`
	Version manifest.Number `json:"version"`
	Message string          `json:"message"`
	From    time.Time       `json:"from"`
	Until   *time.Time      `json:"until"` // when it answered again; null while it does not
}

// StoredObject is what the store said of one object.
type StoredObject struct {
	Key      string `json:"key"`
	Size     int64  `json:"sizeBytes"`
	ETag     string `json:"etag"`
	Checksum string `json:"checksum,omitempty"` // as the store keeps it
	// Attested says what stands behind "these are the right bytes": sha256 (the store keeps it),
	// read (we read it back), streamed (hashed on the way in by a store that keeps no sha256).
	Attested string `json:"attested"`
}

// StoredDocument is stored.json: a status document that a move or a repair rebuilds.
type StoredDocument struct {
	Revised
	Dataset     string          `json:"dataset"`
	Version     manifest.Number `json:"version"`
	Objects     []StoredObject  `json:"objects"`
	Attachments string          `json:"attachments"` // how attachment objects are attested: "listed" or "none"
	At          time.Time       `json:"at"`
}

// Action is what an operator decided.
type Action string

// The actions.
const (
	ActionPublish     Action = "publish" // no decision: the rules of the chain allowed it
	ActionApprove     Action = "approve"
	ActionRollback    Action = "rollback"
	ActionRetire      Action = "retire"      // passes leave the dataset alone until it is approved
	ActionAcknowledge Action = "acknowledge" // of a finding of an audit; moves nothing
)

// Decision is _mirror/decisions/<dataset>/<time>-<run>.json: written before it is carried out,
// never changed after. A pass finishes a decision that stands.
type Decision struct {
	Dataset string          `json:"dataset"`
	Action  Action          `json:"action"`
	Version manifest.Number `json:"version,omitempty"` // rollback: where to
	Hold    *manifest.Hold  `json:"hold,omitempty"`    // approve: what was accepted
	Finding *AuditFinding   `json:"finding,omitempty"` // acknowledge: what was taken note of
	Reason  string          `json:"reason,omitempty"`
	Who     string          `json:"who"`
	At      time.Time       `json:"at"`
	Run     string          `json:"run"`
}

// AuditFinding is a finding of an audit as a decision names it.
type AuditFinding struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Key     string          `json:"key"`
	Version manifest.Number `json:"version,omitempty"`
	Detail  string          `json:"detail"`
}
