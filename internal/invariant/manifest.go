package invariant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// named is a file or an attachment as a manifest names it.
type named struct {
	size   int64
	sha256 string // lower case
}

// claims are all that a manifest names: files by their key, attachments by their name.
type claims struct {
	files       map[string]named
	attachments map[string]named
}

// attachmentName matches the names that the feed documents for attachments.
var attachmentName = regexp.MustCompile(`^(?:original|source:.+|document:.+)$`)

// readManifest collects every entry of a manifest, however its lists are nested.
func readManifest(where place, data []byte) (claims, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return claims{}, fmt.Errorf("no JSON of the right form: %w", err)
	}
	found := claims{files: make(map[string]named), attachments: make(map[string]named)}
	return found, found.collect(where, document, false)
}

// collect walks a manifest. inAttachments tells that a list of that name was entered.
func (c claims) collect(where place, node any, inAttachments bool) error {
	switch node := node.(type) {
	case []any:
		for _, element := range node {
			if err := c.collect(where, element, inAttachments); err != nil {
				return err
			}
		}
	case map[string]any:
		if sum, ok := node["sha256"].(string); ok {
			return c.enter(where, node, sum, inAttachments)
		}
		for name, element := range node {
			if err := c.collect(where, element, inAttachments || name == "attachments"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c claims) enter(where place, entry map[string]any, sum string, inAttachments bool) error {
	number, _ := entry["sizeBytes"].(json.Number)
	size, err := number.Int64()
	if err != nil {
		return fmt.Errorf("an entry has no size: %v", entry)
	}
	path, isPath := entry["path"].(string)
	file, _ := entry["file"].(string)
	value := named{size: size, sha256: strings.ToLower(sum)}
	switch {
	case isPath:
		c.files[fileKey(where, path)] = value
	case inAttachments || attachmentName.MatchString(file):
		c.attachments[file] = value
	case file != "":
		c.files[fileKey(where, file)] = value
	default:
		return fmt.Errorf("an entry has no name: %v", entry)
	}
	return nil
}

// fileKey returns the key of a file of a version.
func fileKey(where place, path string) string {
	table, rest, _ := strings.Cut(path, "/")
	if table == "idMap" {
		table = "id_map"
	}
	switch {
	case rest != "" && (table == "snapshot" || table == "changes" || table == "id_map"):
		return table + "/ploti_dataset_id=" + where.dataset + "/ploti_version=" + where.version + "/" + rest
	case path == "schema.json":
		return versionPrefix(where) + path
	default:
		return versionPrefix(where) + "files/" + path
	}
}

func versionPrefix(where place) string {
	return "versions/" + where.dataset + "/" + where.version + "/"
}

func attachmentKey(sum string) string {
	if len(sum) < 2 {
		return "attachments/sha256/?"
	}
	return "attachments/sha256/" + sum[:2] + "/" + sum
}
