package tables

import (
	"fmt"
	"slices"
	"strings"
)

// A table of versions reads the files of any version of one MAJOR by the version's number, in engines
// that read a Delta table only as it is now, or only by the number of a commit. Its partitions are
// never listed: a query names them. Since a path alone is no version, and none while it is being
// copied, readers go through a view that admits what was published.

// versionsKey names the partition of a table of versions: a name that no column has.
func versionsKey(columns []Column) string {
	key := versionColumn
	for slices.ContainsFunc(columns, func(c Column) bool { return strings.EqualFold(c.Name, key) }) {
		key += "_key"
	}
	return key
}

// versionPath is the address of a version's files, with the version to be filled in for key.
func (p Place) versionPath(dataset, key string) string {
	return p.under("s3", SnapshotRoot(dataset)) + versionColumn + "=${" + key + "}/"
}

// fitting returns the columns that an engine's table can have, and says in comments which it cannot and
// which name the partition has instead of its own.
func fitting(columns []Column, fits func(Column) bool, why string) (kept []Column, comments string) {
	var left []string
	for _, c := range columns {
		if fits(c) {
			kept = append(kept, c)
		} else {
			left = append(left, oneLine(c.Name))
		}
	}
	if len(left) > 0 {
		comments = fmt.Sprintf("-- left out, since %s: %s\n", why, strings.Join(left, ", "))
	}
	if key := versionsKey(columns); key != versionColumn {
		comments += fmt.Sprintf("-- name versions by %s: %s is a column of the dataset's own\n", key, versionColumn)
	}
	return kept, comments
}

// namesFit reports whether the names of a column and of all that is inside it fit.
func namesFit(c Column, outside, inside func(name string) bool) bool {
	return outside(c.Name) && fieldsFit(c.Type, inside)
}

func fieldsFit(t Type, fits func(name string) bool) bool {
	if t.Element != nil && !fieldsFit(*t.Element, fits) {
		return false
	}
	return !slices.ContainsFunc(t.Columns, func(c Column) bool { return !namesFit(c, fits, fits) })
}

// publishedView is the view over a table of versions, in the SQL that Trino and Athena share.
func publishedView(view, files, publications, key, dataset string, major int) string {
	return fmt.Sprintf("CREATE OR REPLACE VIEW %s AS\nSELECT f.* FROM %s f\nWHERE f.%s IN (SELECT lpad(CAST(p.ploti_version AS varchar), 10, '0')\n"+
		"  FROM %s p WHERE p.ploti_dataset_id = %s AND p.schema_version LIKE '%d.%%');\n",
		view, files, key, publications, literal(dataset), major)
}
