package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"feedmirror/manifest"
)

// action is one line of a commit: exactly one of its fields is set (Delta protocol, "Actions").
type action struct {
	CommitInfo *commitInfo `json:"commitInfo,omitempty"`
	Protocol   *protocol   `json:"protocol,omitempty"`
	MetaData   *metaData   `json:"metaData,omitempty"`
	Txn        *txn        `json:"txn,omitempty"`
	Remove     *removeFile `json:"remove,omitempty"`
	Add        *addFile    `json:"add,omitempty"`
}

type commitInfo struct {
	Timestamp           int64             `json:"timestamp"` // milliseconds since 1970
	Operation           string            `json:"operation"`
	OperationParameters map[string]string `json:"operationParameters"`
	EngineInfo          string            `json:"engineInfo"`
	UserMetadata        string            `json:"userMetadata"`
}

type protocol struct {
	MinReaderVersion int      `json:"minReaderVersion"`
	MinWriterVersion int      `json:"minWriterVersion"`
	ReaderFeatures   []string `json:"readerFeatures,omitempty"`
	WriterFeatures   []string `json:"writerFeatures,omitempty"`
}

type metaData struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	Format           formatJSON        `json:"format"`
	SchemaString     string            `json:"schemaString"`
	PartitionColumns []string          `json:"partitionColumns"`
	Configuration    map[string]string `json:"configuration"`
	CreatedTime      int64             `json:"createdTime"` // milliseconds since 1970
}

type formatJSON struct {
	Provider string            `json:"provider"`
	Options  map[string]string `json:"options"`
}

type txn struct {
	AppID       string `json:"appId"`
	Version     int64  `json:"version"`
	LastUpdated int64  `json:"lastUpdated"` // milliseconds since 1970
}

type addFile struct {
	Path             string            `json:"path"` // relative to the table, URI-encoded
	PartitionValues  map[string]string `json:"partitionValues"`
	Size             int64             `json:"size"`
	ModificationTime int64             `json:"modificationTime"` // milliseconds since 1970
	DataChange       bool              `json:"dataChange"`
	Stats            string            `json:"stats,omitempty"`
}

type removeFile struct {
	Path                 string            `json:"path"`
	DeletionTimestamp    int64             `json:"deletionTimestamp"` // milliseconds since 1970
	DataChange           bool              `json:"dataChange"`
	ExtendedFileMetadata bool              `json:"extendedFileMetadata"`
	PartitionValues      map[string]string `json:"partitionValues"`
	Size                 int64             `json:"size"`
}

// encodeCommit writes actions one a line, without HTML escapes.
func encodeCommit(actions []action) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, line := range actions {
		if err := encoder.Encode(line); err != nil {
			return nil, fmt.Errorf("encode commit: %w", err)
		}
	}
	return text.Bytes(), nil
}

// maxActions bounds the actions of one commit: each takes some hundred bytes of memory, however few it
// has in the log. A commit of the greatest size, maxCommit, has room for fewer files than that.
const maxActions = 1 << 19

// decodeCommit reads a commit. Actions and fields that this program does not know are passed over.
func decodeCommit(text []byte) ([]action, error) {
	var actions []action
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if len(actions) == maxActions {
			return nil, fmt.Errorf("decode commit: it has more than %d actions", maxActions)
		}
		var one action
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("decode commit: line %d: %w", len(actions)+1, err)
		}
		actions = append(actions, one)
	}
	return actions, nil
}

// relativePath returns a key as a log names it: relative to the table's root, with what a URI may not
// hold escaped. Readers decode it once (Delta protocol, "Add File and Remove File").
func relativePath(root, key string) (string, error) {
	rest, below := strings.CutPrefix(key, root)
	if !below {
		return "", fmt.Errorf("key %s does not lie under the table's root %s", key, root)
	}
	segments := strings.Split(rest, "/")
	for i, segment := range segments {
		// "=" may stand in a path as it is, and engines look for it there.
		segments[i] = strings.ReplaceAll(url.PathEscape(segment), "%3D", "=")
	}
	return strings.Join(segments, "/"), nil
}

// keyOf is the inverse of relativePath.
func keyOf(root, path string) (string, error) {
	rest, err := url.PathUnescape(path)
	if err != nil {
		return "", fmt.Errorf("path %q of a log: %w", path, err)
	}
	return root + rest, nil
}

// tableConfiguration keeps VACUUM of a customer's engine away from the versions that a log no longer
// lists: they are what time travel and the audit read. "No appendOnly" is on purpose: a rollback and a
// prune remove files.
func tableConfiguration() map[string]string {
	return map[string]string{
		"delta.deletedFileRetentionDuration": "interval 36500 days",
		"delta.logRetentionDuration":         "interval 36500 days",
		"delta.enableExpiredLogCleanup":      "false",
	}
}

// protocolFor returns the least protocol that a schema needs. raised tells that the table had a higher
// one before: a protocol is never lowered.
func protocolFor(columns []Column, raised bool) protocol {
	if !raised && !needsNTZ(columns) {
		return protocol{MinReaderVersion: 1, MinWriterVersion: 2}
	}
	features := []string{"timestampNtz"}
	return protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: features, WriterFeatures: features}
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func appID(dataset string) string { return "ploti:" + dataset }

func paddedLog(n int64) string { return fmt.Sprintf("%020d", n) }

// Roots of the tables, with the slash at their end.
const (
	// ChangesRoot is the root of the one table of all datasets' changes.
	ChangesRoot = "changes/"
	// PublicationsRoot is the root of the table of moves of pointers.
	PublicationsRoot = "publications/"
)

// SnapshotRoot is the root of the table that shows a dataset's published version.
func SnapshotRoot(dataset string) string {
	return string(manifest.KindSnapshot) + "/ploti_dataset_id=" + dataset + "/"
}

// AttachmentRoot is the root of the table of the attachments of a dataset's published version.
func AttachmentRoot(dataset string) string {
	return "attachment_index/ploti_dataset_id=" + dataset + "/"
}
