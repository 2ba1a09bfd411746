package invariant

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// publication is a row of the table of publications, without its times.
type publication struct {
	Dataset  string `parquet:"ploti_dataset_id"`
	Version  int64  `parquet:"ploti_version"`
	Previous *int64 `parquet:"previous_version,optional"`
	Move     int64  `parquet:"move"`
	Action   string `parquet:"action"`
}

// addTables adds what each log says at its end: the files that it lists, or for the table of
// publications its rows. How many commits led there is as many as there were interruptions.
func (n Normal) addTables(b Bucket, keys []string) error {
	c := &checker{bucket: b, places: make(map[string]place), objects: make(map[string]Object)}
	for _, key := range keys {
		if where := parseKey(key); where.class == classTable {
			c.places[key], c.objects[key] = where, Object{}
		}
	}
	for _, t := range c.tables() {
		said := t.keys()
		if t.root == publicationsRoot {
			var err error
			if said, err = publicationsIn(b, said); err != nil {
				return err
			}
		}
		n.documents[t.root+"_delta_log/"] = said
	}
	if len(c.violations) > 0 {
		return fmt.Errorf("read tables: %+v", c.violations[0])
	}
	return nil
}

const publicationsRoot = "publications/"

func publicationsIn(b Bucket, files []string) ([]string, error) {
	var said []string
	for _, key := range files {
		data, err := readAll(b, key)
		if err != nil {
			return nil, err
		}
		reader := parquet.NewGenericReader[publication](bytes.NewReader(data))
		rows := make([]publication, reader.NumRows())
		if read, err := reader.Read(rows); err != nil && !errors.Is(err, io.EOF) || read < len(rows) {
			return nil, fmt.Errorf("read %s: %d of %d rows: %w", key, read, len(rows), err)
		}
		for _, row := range rows {
			previous := "nothing"
			if row.Previous != nil {
				previous = fmt.Sprint(*row.Previous)
			}
			said = append(said, fmt.Sprintf("%s move %d: %s to %d by %s", row.Dataset, row.Move, previous, row.Version, row.Action))
		}
	}
	slices.SortFunc(said, strings.Compare)
	return said, nil
}
