package tables

import (
	"strconv"
	"strings"
)

// nameKind is what a name below _delta_log/ means to an engine (Delta protocol, "File Types").
type nameKind int

const (
	nameForeign    nameKind = iota // engines pass over it
	nameCommit                     // NUMBER.json
	nameCheckpoint                 // NUMBER.checkpoint.parquet
	nameHint                       // _last_checkpoint
	// nameOfOthers is what engines read or check and a mirror never writes: checkpoints in parts or of
	// the second kind, compacted commits, checksums, files on which such checkpoints rest.
	nameOfOthers
)

// parseName tells what a name is, and its number where it has one.
func parseName(name string) (nameKind, int64) {
	if name == "_last_checkpoint" {
		return nameHint, 0
	}
	for _, folder := range [...]string{"_sidecars/", "_staged_commits/", "_commits/"} {
		if strings.HasPrefix(name, folder) {
			return nameOfOthers, 0
		}
	}
	digits, ending, _ := strings.Cut(name, ".")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) != 20 || strings.Contains(name, "/") {
		return nameForeign, 0
	}
	switch {
	case ending == "json":
		return nameCommit, n
	case ending == "checkpoint.parquet":
		return nameCheckpoint, n
	case ending == "crc", strings.HasPrefix(ending, "checkpoint."), strings.HasSuffix(ending, ".compacted.json"):
		return nameOfOthers, n
	}
	return nameForeign, 0
}
