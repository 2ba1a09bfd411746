package bucket

import (
	"context"
	"io"
	"iter"
	"time"

	"feedmirror/manifest"
)

// Tag names one state of an object: an ETag, a generation or, on a file system, what stands for
// one. It is opaque, and can repeat when the same bytes are written again.
type Tag string

// Absent is the tag of a key that holds nothing.
const Absent Tag = ""

// Info is what a store says of an object.
type Info struct {
	Key      string
	Size     int64 // bytes; -1 when the store did not say
	Tag      Tag
	Modified time.Time
	// SHA256 is the checksum of the whole object that the store itself keeps; nil when it keeps
	// none or was not asked (a listing does not tell).
	SHA256 *manifest.SHA256
	// Checksum is another whole-object checksum that the store keeps, as "algorithm:hex"
	// ("crc32c:1a2b3c4d", "crc64nvme:...", "md5:..."); empty when there is none. A store computed
	// it from the bytes it holds; we cannot derive a sha256 from it.
	Checksum string
	Class    string // storage class in the store's words; empty for the default
	Archived bool   // cannot be read now without a restore
	Encoding string // Content-Encoding; must be empty for data
}

// Reader reads a bucket. A missing key is a fault.NotFound from every method.
type Reader interface {
	// Stat returns what the store knows of key, with checksums it keeps.
	Stat(ctx context.Context, key string) (Info, error)
	// Open returns the bytes from offset on; length -1 reads to the end. The reader fails with
	// an error, never a clean end, when the store sends less than it promised.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error)
	// List yields objects whose keys begin with prefix and are greater than after (empty: all),
	// in byte order of their keys. It yields an error and ends when the listing cannot be proven
	// complete.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
}

// ContentClass is the class of content: it decides cache rules and media type.
type ContentClass int

// The classes of content.
const (
	Data     ContentClass = iota // immutable bytes of the feed: cache for a year
	Document                     // immutable JSON, text or files of tables of ours
	Pointer                      // overwritten: never cache
)

// Content is what a Create writes.
type Content struct {
	Size   int64 // bytes that Body delivers
	SHA256 manifest.SHA256
	Class  ContentClass
	// Body is read once, from its start. When it also implements io.Seeker the write can be
	// repeated from there; otherwise a failed write ends with the error and the caller decides.
	Body io.Reader
}

// Writer creates objects.
type Writer interface {
	// Create writes an object that is not there yet and makes it visible only when all bytes
	// arrived and hash to content.SHA256. A key that is taken is a fault.Exists and stays as it
	// is; wrong bytes are a fault.WrongBytes and leave nothing.
	Create(ctx context.Context, key string, content Content) (Info, error)
}

// Swapper replaces small documents.
type Swapper interface {
	// Swap writes data over the object whose tag is old, or creates it when old is Absent, and
	// returns the new tag. Another tag is a fault.Conflict and changes nothing. Any other error
	// proves nothing: read the key and decide from what stands there.
	Swap(ctx context.Context, key string, old Tag, data []byte) (Tag, error)
}

// Replacer overwrites data. Only a repair uses it, for an object whose bytes were proven wrong.
type Replacer interface {
	// Replace writes content over the object whose tag is old, which is not Absent. It becomes
	// visible only when all bytes arrived and hash to content.SHA256; until then, and after wrong
	// bytes (a fault.WrongBytes), the old object stands. Another tag is a fault.Conflict and
	// changes nothing.
	Replace(ctx context.Context, key string, old Tag, content Content) (Info, error)
}

// Deleter removes objects. Only prune, doctor and the local store's own staging use it.
type Deleter interface {
	// Delete removes the object if its tag still is tag. A key that is gone is no error.
	Delete(ctx context.Context, key string, tag Tag) error
}

// Store is a bucket as an adapter provides it.
type Store interface { //nolint:interfacebloat // bundles the small ports above for those who wire stores
	Reader
	Writer
	Swapper
	Replacer
	Deleter
	// Guarantees says what this store is known to do; Probe finds out whether it does.
	Guarantees() Guarantees
	// Close gives back what the store holds open.
	Close() error
}

// Guarantees are properties of a store. They are declared by its adapter, probed by doctor and by
// the first sync, and kept in layout.json.
type Guarantees struct {
	AtomicCreate      bool   `json:"atomicCreate"`      // of many creates of one key, one wins
	CompareAndSwap    bool   `json:"compareAndSwap"`    // a swap with a stale tag changes nothing
	RefusesWrongBytes bool   `json:"refusesWrongBytes"` // the store itself checks the bytes we announce
	Attests           string `json:"attests"`           // checksum that the store keeps: "sha256", "crc32c", "md5" or ""
	ConditionalDelete bool   `json:"conditionalDelete"` // a delete with a stale tag changes nothing
	FreshTags         bool   `json:"freshTags"`         // data written again gets another tag, though its bytes are the same
	MaxSinglePut      int64  `json:"maxSinglePutBytes"` // greater objects go in parts; 0: no limit
}

// WeakLockingHint names the way out for a store that ignores conditions.
const WeakLockingHint = "Where nothing else ever writes to this bucket, --accept-weak-locking goes on without them."

// WeakLocking reports whether two writers at once can overwrite each other.
func (g Guarantees) WeakLocking() bool { return !g.AtomicCreate || !g.CompareAndSwap }
