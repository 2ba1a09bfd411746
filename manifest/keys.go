package manifest

import "strings"

// Partition returns "ploti_dataset_id=<dataset>/ploti_version=<ten digits>/".
func Partition(dataset string, n Number) string {
	return "ploti_dataset_id=" + dataset + "/ploti_version=" + n.Padded() + "/"
}

// FileKey returns the key of a version's file. Parts of tables lie under their table's prefix,
// schema.json beside the record, any other file under files/ beside the record.
func FileKey(dataset string, n Number, f File) string {
	switch f.Kind {
	case KindSnapshot, KindChanges, KindIDMap:
		_, rest, _ := strings.Cut(f.Path, "/")
		return string(f.Kind) + "/" + Partition(dataset, n) + rest
	case KindSchema:
		return VersionPrefix(dataset, n) + "schema.json"
	default:
		return VersionPrefix(dataset, n) + "files/" + f.Path
	}
}

// AttachmentPrefix is where all attachment objects lie, named by their bytes' hash.
const AttachmentPrefix = "attachments/sha256/"

// AttachmentKey returns the key of an attachment's bytes.
func AttachmentKey(sum SHA256) string {
	text := sum.String()
	return AttachmentPrefix + text[:2] + "/" + text
}

// IndexKey returns the key of a version's attachment index.
func IndexKey(dataset string, n Number) string {
	return "attachment_index/" + Partition(dataset, n) + "index.parquet"
}

// RecordsPrefix is where a dataset's versions stand, in version order.
func RecordsPrefix(dataset string) string { return "versions/" + dataset + "/" }

// VersionPrefix is where a version's own documents stand.
func VersionPrefix(dataset string, n Number) string { return RecordsPrefix(dataset) + n.Padded() + "/" }

// ManifestKey returns the key of a version's manifest; the functions below return those of its
// other documents.
func ManifestKey(dataset string, n Number) string { return VersionPrefix(dataset, n) + "manifest.json" }

// RecordKey is the commit point: the version is there when this key is.
func RecordKey(dataset string, n Number) string { return VersionPrefix(dataset, n) + "record.json" }

// SumsKey holds lines for sha256sum -c, run from the bucket's root.
func SumsKey(dataset string, n Number) string { return VersionPrefix(dataset, n) + "SHA256SUMS" }

// StoredKey holds what the store said of each object; it is overwritten after a move or repair.
func StoredKey(dataset string, n Number) string { return VersionPrefix(dataset, n) + "stored.json" }

// GoneKey notes that the feed no longer had the version; a record beside it wins.
func GoneKey(dataset string, n Number) string { return VersionPrefix(dataset, n) + "gone.json" }

// WithdrawnKey stands beside a record whose version the feed released again.
func WithdrawnKey(dataset string, n Number) string {
	return VersionPrefix(dataset, n) + "withdrawn.json"
}

// PrunedKey stands beside a record whose files were deleted on purpose.
func PrunedKey(dataset string, n Number) string { return VersionPrefix(dataset, n) + "pruned.json" }

// OtherManifestKey keeps a manifest that the feed later published under the same number.
func OtherManifestKey(dataset string, n Number, sum SHA256) string {
	return VersionPrefix(dataset, n) + "manifest." + sum.String()[:8] + ".json"
}

// IsOtherManifest reports whether a document of a version is one that OtherManifestKey names.
func IsOtherManifest(document string) bool {
	middle, found := strings.CutPrefix(document, "manifest.")
	middle, ends := strings.CutSuffix(middle, ".json")
	return found && ends && len(middle) == 8
}

// PointerKey is the dataset's current pointer.
func PointerKey(dataset string) string { return "current/" + dataset + ".json" }

// LeaseKey says who works on a dataset.
func LeaseKey(dataset string) string { return "_mirror/leases/" + dataset + ".json" }

// DecisionsPrefix is where an operator's decisions about a dataset stand, in time order.
func DecisionsPrefix(dataset string) string { return "_mirror/decisions/" + dataset + "/" }

// BucketDecisions stands for the dataset in the key of a decision about something that belongs to no
// dataset, such as an attachment. No dataset can be called so.
const BucketDecisions = "_bucket"

// The documents of the mirror itself.
const (
	LayoutKey    = "_mirror/layout.json"
	PruneKey     = "_mirror/prune.json"
	ShardsPrefix = "_mirror/shards/"
	RunsPrefix   = "_mirror/runs/"
	AuditsPrefix = "_mirror/audits/"
	LedgerPrefix = "_mirror/audits/ledger/" // Parquet: when each object was last checked
	DoctorPrefix = "_mirror/doctor/"
)
