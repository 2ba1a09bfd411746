package state

import (
	"context"
	"fmt"
	"io"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Object is an object that a version's record will name.
type Object struct {
	Key    string
	Size   int64 // bytes
	SHA256 manifest.SHA256
	// Streamed tells that this process hashed the bytes on their way into the store in this pass.
	// What stood there before is read back where the store keeps no sha256 of its own.
	Streamed bool
}

// AttachmentCheck finds out whether every attachment object of a version that is not carried over
// from the record before is in the bucket with its size.
type AttachmentCheck interface {
	AllPresent(ctx context.Context) error
}

// Verified is a version all of whose objects were found in the bucket with the right bytes. Only
// Verify makes one.
type Verified struct {
	dataset string
	version manifest.Number
	objects map[string]manifest.SHA256
	stored  []StoredObject
}

// Verify looks at every object of a version: it must be there with its size, and with the strongest
// checksum that the store keeps. Wrong bytes are a fault.Conflict that names the key.
func Verify(ctx context.Context, r bucket.Reader, dataset string, n manifest.Number, objects []Object, attachments AttachmentCheck) (Verified, error) {
	v := Verified{dataset: dataset, version: n, objects: make(map[string]manifest.SHA256, len(objects))}
	for _, object := range objects {
		stored, err := verifyObject(ctx, r, object)
		if err != nil {
			return Verified{}, err
		}
		v.objects[object.Key] = object.SHA256
		v.stored = append(v.stored, stored)
	}
	if err := attachments.AllPresent(ctx); err != nil {
		return Verified{}, err
	}
	return v, nil
}

func verifyObject(ctx context.Context, r bucket.Reader, object Object) (StoredObject, error) {
	info, err := r.Stat(ctx, object.Key)
	if err != nil {
		return StoredObject{}, err
	}
	stored := StoredObject{Key: object.Key, Size: object.Size, ETag: string(info.Tag), Checksum: info.Checksum}
	switch {
	case info.Size >= 0 && info.Size != object.Size:
		return StoredObject{}, otherBytes(object.Key, fmt.Errorf("it has %d bytes, the manifest names %d", info.Size, object.Size))
	case info.Encoding != "":
		return StoredObject{}, otherBytes(object.Key, fmt.Errorf("the store keeps it with content encoding %q", info.Encoding))
	case info.SHA256 != nil && *info.SHA256 != object.SHA256:
		return StoredObject{}, otherBytes(object.Key, fmt.Errorf("the store's sha256 is %s, the manifest names %s", info.SHA256, object.SHA256))
	case info.SHA256 != nil:
		stored.Attested, stored.Checksum = "sha256", "sha256:"+info.SHA256.String()
	case object.Streamed && info.Size >= 0:
		stored.Attested = "streamed"
	default:
		stored.Attested = "read"
		if err := ReadBack(ctx, r, object); err != nil {
			return StoredObject{}, err
		}
	}
	return stored, nil
}

// ReadBack reads an object and compares its bytes. Other bytes are a fault.Conflict.
func ReadBack(ctx context.Context, r bucket.Reader, object Object) error {
	body, _, err := r.Open(ctx, object.Key, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close() // only read from: nothing can be lost
	_, err = io.Copy(io.Discard, bucket.VerifyReader(body, object.Size, object.SHA256))
	if fault.Is(err, fault.WrongBytes) {
		return otherBytes(object.Key, err)
	}
	if err != nil {
		return fmt.Errorf("read back %s: %w", object.Key, err)
	}
	return nil
}

// Attest returns what the store says of an object that it holds with the right bytes: by the sha256
// that the store keeps, else by reading it. Other bytes are a fault.Conflict.
func Attest(ctx context.Context, r bucket.Reader, object Object) (StoredObject, error) {
	return verifyObject(ctx, r, object)
}

func otherBytes(key string, cause error) error {
	return &fault.Error{Op: "verify object", Object: key, Side: fault.SideBucket, Kind: fault.Conflict, Err: cause,
		Hint: "An object without a record holds other bytes than the manifest names. Clear it with: mirror prune --uncommitted DATASET VERSION"}
}

// StoredObjects returns what the store said of each verified object.
func (v Verified) StoredObjects() []StoredObject { return v.stored }

// Committed is a version whose record stands. Only Commit and Recall make one.
type Committed struct {
	record manifest.Record
	sum    manifest.SHA256
	brief  bool // without its files
}

// Record returns the record that stands; what Brief returned has none of its files.
func (c Committed) Record() manifest.Record { return c.record }

// Brief returns the version without its files: all that the rules of publication and the chain ask
// for. A pass can hold thousands of them. Who publishes one reads its record again.
func (c Committed) Brief() Committed {
	c.record.Files, c.record.SourceURL, c.brief = nil, nil, true
	return c
}

// SHA256 returns the hash of the record's stored bytes.
func (c Committed) SHA256() manifest.SHA256 { return c.sum }

// Candidate returns the record as the rules of publication see it.
func (c Committed) Candidate(held manifest.Held) manifest.Candidate {
	return manifest.Candidate{
		Version: c.record.Version, Schema: c.record.SchemaVersion, ResyncRequired: c.record.ResyncRequired,
		Fork:   c.record.Gap != nil && c.record.Gap.Reason == manifest.GapFork,
		Doubts: len(c.record.Doubts) > 0, Withdrawn: held.Withdrawn, Pruned: held.Pruned,
	}
}

// verifyRecord looks whether a record stands as it was sent: a store that says yes and keeps other
// bytes would have a pointer name what nobody can read.
func verifyRecord(ctx context.Context, r bucket.Reader, key string, body []byte) error {
	_, err := verifyObject(ctx, r, Object{Key: key, Size: int64(len(body)), SHA256: manifest.SumBytes(body), Streamed: true})
	if !fault.Is(err, fault.Conflict) {
		return err
	}
	return &fault.Error{Op: "commit version", Object: key, Side: fault.SideBucket, Kind: fault.WrongBytes, Err: err,
		Hint: "The store keeps other bytes than it was sent: run mirror doctor. Remove this object before the next pass."}
}

// Commit puts the record of a verified version. Where a record stands already and names the same
// manifest, that one is the commit, ours or a rival's. Another manifest is a fault.History.
func Commit(ctx context.Context, docs Documents, v Verified, record manifest.Record) (Committed, error) {
	if err := v.covers(record); err != nil {
		return Committed{}, err
	}
	body, err := manifest.EncodeDocument(record)
	if err != nil {
		return Committed{}, err
	}
	key := manifest.RecordKey(record.Dataset, record.Version)
	standing, ours, err := CreateOnce(ctx, docs, key, body)
	if err == nil && ours {
		err = verifyRecord(ctx, docs, key, body)
	}
	if err != nil {
		return Committed{}, err
	}
	committed, err := committedFrom(key, standing)
	if err != nil {
		return Committed{}, err
	}
	if committed.record.Manifest.SHA256 != record.Manifest.SHA256 {
		return Committed{}, &fault.Error{Op: "commit version", Object: key, Side: fault.SideFeed, Kind: fault.History,
			Dataset: record.Dataset, Version: int64(record.Version),
			Err:  fmt.Errorf("the record that stands names manifest %s, the feed now serves %s", committed.record.Manifest.SHA256, record.Manifest.SHA256),
			Hint: "The feed rewrote a published version. The bucket keeps the first one; ask the feed's support."}
	}
	return committed, nil
}

// covers refuses a record that names an object which was not verified.
func (v Verified) covers(record manifest.Record) error {
	fail := func(key string) error {
		return &fault.Error{Op: "commit version", Object: key, Side: fault.SideBucket, Kind: fault.Internal,
			Dataset: record.Dataset, Version: int64(record.Version), Err: fmt.Errorf("the record names an object that was not verified")}
	}
	if v.objects == nil || v.dataset != record.Dataset || v.version != record.Version {
		return fail(manifest.RecordKey(record.Dataset, record.Version))
	}
	named := []manifest.ObjectRef{record.Manifest, record.Sums}
	if record.Attachments.Index != nil {
		named = append(named, *record.Attachments.Index)
	}
	for _, file := range record.Files {
		named = append(named, manifest.ObjectRef{Key: file.Key, SHA256: file.SHA256})
	}
	for _, ref := range named {
		if sum, ok := v.objects[ref.Key]; !ok || sum != ref.SHA256 {
			return fail(ref.Key)
		}
	}
	return nil
}

// Recall returns a version whose record stands.
func Recall(ctx context.Context, r bucket.Reader, dataset string, n manifest.Number) (Committed, error) {
	key := manifest.RecordKey(dataset, n)
	raw, _, err := bucket.ReadAll(ctx, r, key, maxDocument)
	if err != nil {
		return Committed{}, err
	}
	return committedFrom(key, raw)
}

func committedFrom(key string, raw []byte) (Committed, error) {
	record, err := manifest.DecodeRecord(raw)
	if err == nil {
		err = record.Validate()
	}
	if err != nil {
		return Committed{}, &fault.Error{Op: "read record", Object: key, Side: fault.SideBucket, Kind: fault.Malformed, Err: err,
			Hint: "Run mirror verify --level chain to see what else is damaged."}
	}
	if manifest.RecordKey(record.Dataset, record.Version) != key {
		return Committed{}, &fault.Error{Op: "read record", Object: key, Side: fault.SideBucket, Kind: fault.Malformed,
			Err: fmt.Errorf("it is the record of %s version %d", record.Dataset, record.Version)}
	}
	return Committed{record: record, sum: manifest.SumBytes(raw)}, nil
}
