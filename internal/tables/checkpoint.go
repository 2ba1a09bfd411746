package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
)

// checkpointEvery is how many commits may follow a checkpoint: engines read them one by one.
const checkpointEvery = 100

// checkpointRow is one action of a checkpoint, as Parquet stores it (Delta protocol, "Checkpoint
// Schema"). Removed files are left out: they would only tell VACUUM what it may delete, and no table of
// ours lets it.
type checkpointRow struct {
	Txn      *txnRow      `parquet:"txn,optional"`
	Add      *addRow      `parquet:"add,optional"`
	MetaData *metaDataRow `parquet:"metaData,optional"`
	Protocol *protocolRow `parquet:"protocol,optional"`
}

type txnRow struct {
	AppID       string `parquet:"appId"`
	Version     int64  `parquet:"version"`
	LastUpdated int64  `parquet:"lastUpdated"`
}

type addRow struct {
	Path             string            `parquet:"path,plain"`
	PartitionValues  map[string]string `parquet:"partitionValues"`
	Size             int64             `parquet:"size"`
	ModificationTime int64             `parquet:"modificationTime"`
	DataChange       bool              `parquet:"dataChange"`
	Stats            string            `parquet:"stats,plain"`
}

type metaDataRow struct {
	ID               string            `parquet:"id"`
	Name             string            `parquet:"name"`
	Format           formatRow         `parquet:"format"`
	SchemaString     string            `parquet:"schemaString"`
	PartitionColumns []string          `parquet:"partitionColumns,list"`
	Configuration    map[string]string `parquet:"configuration"`
	CreatedTime      int64             `parquet:"createdTime"`
}

type formatRow struct {
	Provider string            `parquet:"provider"`
	Options  map[string]string `parquet:"options"`
}

type protocolRow struct {
	MinReaderVersion int32    `parquet:"minReaderVersion"`
	MinWriterVersion int32    `parquet:"minWriterVersion"`
	ReaderFeatures   []string `parquet:"readerFeatures,list,optional"`
	WriterFeatures   []string `parquet:"writerFeatures,list,optional"`
}

func (l log) checkpointKey(n int64) string { return l.folder() + paddedLog(n) + ".checkpoint.parquet" }

// contents is what a log says at one of its commits.
type contents struct {
	protocol protocol
	metaData metaData
	txns     map[string]txn
	files    map[string]addFile // by path
}

func newContents() *contents {
	return &contents{txns: map[string]txn{}, files: map[string]addFile{}}
}

func (c *contents) apply(actions []action) {
	for i := range actions {
		switch a := &actions[i]; {
		case a.Protocol != nil:
			c.protocol = *a.Protocol
		case a.MetaData != nil:
			c.metaData = *a.MetaData
		case a.Txn != nil:
			c.txns[a.Txn.AppID] = *a.Txn
		case a.Remove != nil:
			delete(c.files, a.Remove.Path)
		case a.Add != nil:
			c.files[a.Add.Path] = *a.Add
		}
	}
}

// contents reads what the log says at its head: the newest checkpoint, and the commits after it.
func (l log) contents(ctx context.Context, found listing) (*contents, error) {
	all := newContents()
	return all, l.readInto(ctx, found, all)
}

func (l log) readInto(ctx context.Context, found listing, all *contents) error {
	if found.checkpoint >= 0 {
		err := readCheckpoint(ctx, l, found.checkpoint, func(row *checkpointRow) { all.apply([]action{row.action()}) })
		if err != nil {
			return err
		}
	}
	for _, n := range found.commits {
		if n <= found.checkpoint {
			continue
		}
		actions, err := l.read(ctx, n)
		if err != nil {
			return err
		}
		all.apply(actions)
	}
	return nil
}

// readCheckpoint calls visit with each row of a checkpoint of the log, as far as Row names its columns.
func readCheckpoint[Row any](ctx context.Context, l log, n int64, visit func(row *Row)) error {
	broken, err := visitCheckpoint(ctx, l.store, l.checkpointKey(n), visit)
	if broken != nil {
		return l.damaged(fmt.Errorf("checkpoint %d: %w", n, broken))
	}
	return err
}

// visitCheckpoint tells a checkpoint that is broken from a store that did not give it.
func visitCheckpoint[Row any](ctx context.Context, r bucket.Reader, key string, visit func(row *Row)) (broken, err error) {
	info, err := r.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	source := &watchedReaderAt{source: bucket.NewReaderAt(ctx, r, info)}
	defer func() {
		if cause := recover(); cause != nil { // the Parquet library panics on some broken pages
			broken = fmt.Errorf("%v", cause)
		}
		if source.err != nil {
			broken, err = nil, source.err
		}
	}()
	if _, err := parquetinfo.CheckPages(source, info.Size); err != nil {
		return err, nil
	}
	file, err := parquetinfo.Open(source, info.Size, 64<<10)
	if err != nil {
		return err, nil
	}
	reader := parquet.NewGenericReader[Row](file)
	defer func() { _ = reader.Close() }() // only read from: nothing can be lost
	rows := make([]Row, 256)
	for {
		clear(rows)
		count, err := reader.Read(rows)
		for i := range rows[:count] {
			visit(&rows[i])
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}

// txns reads how far a log says to have come, by application. Of a checkpoint it decodes no file that is
// listed: those of a table of all datasets can be millions.
func (l log) txns(ctx context.Context, found listing) (map[string]int64, error) {
	reached := map[string]int64{}
	if found.checkpoint >= 0 {
		err := readCheckpoint(ctx, l, found.checkpoint, func(row *txnOnly) {
			if row.Txn != nil {
				reached[row.Txn.AppID] = row.Txn.Version
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for _, n := range found.commits {
		if n <= found.checkpoint {
			continue
		}
		actions, err := l.read(ctx, n)
		if err != nil {
			return nil, err
		}
		for _, a := range actions {
			if a.Txn != nil {
				reached[a.Txn.AppID] = a.Txn.Version
			}
		}
	}
	return reached, nil
}

// txnOnly is the one column of a checkpoint that txns reads.
type txnOnly struct {
	Txn *txnRow `parquet:"txn,optional"`
}

func (r *checkpointRow) action() action {
	switch {
	case r.Protocol != nil:
		return action{Protocol: &protocol{MinReaderVersion: int(r.Protocol.MinReaderVersion), MinWriterVersion: int(r.Protocol.MinWriterVersion),
			ReaderFeatures: r.Protocol.ReaderFeatures, WriterFeatures: r.Protocol.WriterFeatures}}
	case r.MetaData != nil:
		m := r.MetaData
		return action{MetaData: &metaData{ID: m.ID, Name: m.Name, Format: formatJSON(m.Format), SchemaString: m.SchemaString,
			PartitionColumns: m.PartitionColumns, Configuration: m.Configuration, CreatedTime: m.CreatedTime}}
	case r.Txn != nil:
		return action{Txn: &txn{AppID: r.Txn.AppID, Version: r.Txn.Version, LastUpdated: r.Txn.LastUpdated}}
	case r.Add != nil:
		a := addFile(*r.Add)
		return action{Add: &a}
	}
	return action{}
}

// checkpoint writes a checkpoint of the commit n and the hint that leads to it.
func (l log) checkpoint(ctx context.Context, n int64, all *contents) error {
	file, err := os.CreateTemp("", "checkpoint-*.parquet")
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // the folder of temporary files is cleaned by others too
	defer func() { _ = file.Close() }()           // written, then read back: a failed close loses nothing
	actions, err := writeCheckpoint(file, all)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	sum, size, err := manifest.SumReader(file)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	_, err = l.store.Create(ctx, l.checkpointKey(n), bucket.Content{Size: size, SHA256: sum, Class: bucket.Document, Body: file})
	if err != nil && !fault.Is(err, fault.Exists) {
		return err
	}
	return l.pointAt(ctx, n, actions)
}

// pointAt writes the hint, unless it leads to a later checkpoint already.
func (l log) pointAt(ctx context.Context, n, actions int64) error {
	key := l.folder() + "_last_checkpoint"
	text, info, err := bucket.ReadAll(ctx, l.store, key, 64<<10)
	tag := info.Tag
	switch {
	case fault.Is(err, fault.NotFound):
		tag = bucket.Absent
	case err != nil:
		return err
	}
	if last := decodeHint(text); last.Version >= n && text != nil {
		return nil
	}
	body := fmt.Appendf(nil, "{\"version\":%d,\"size\":%d}\n", n, actions)
	if _, err := l.store.Swap(ctx, key, tag, body); err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}
	return nil
}

func writeCheckpoint(to io.Writer, all *contents) (int64, error) {
	writer := parquet.NewGenericWriter[checkpointRow](to, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1<<16))
	count := int64(0)
	put := func(row checkpointRow) error {
		count++
		_, err := writer.Write([]checkpointRow{row})
		return err
	}
	p, m := all.protocol, all.metaData
	err := put(checkpointRow{Protocol: &protocolRow{int32(p.MinReaderVersion), int32(p.MinWriterVersion), p.ReaderFeatures, p.WriterFeatures}}) //nolint:gosec // one digit
	if err == nil {
		err = put(checkpointRow{MetaData: &metaDataRow{ID: m.ID, Name: m.Name, Format: formatRow(m.Format), SchemaString: m.SchemaString,
			PartitionColumns: m.PartitionColumns, Configuration: m.Configuration, CreatedTime: m.CreatedTime}})
	}
	for _, id := range slices.Sorted(maps.Keys(all.txns)) {
		if err == nil {
			t := txnRow(all.txns[id])
			err = put(checkpointRow{Txn: &t})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(all.files)) {
		if err == nil {
			a := addRow(all.files[path])
			a.DataChange = false // Delta protocol: a checkpoint's adds change nothing
			err = put(checkpointRow{Add: &a})
		}
	}
	return count, errors.Join(err, writer.Close())
}
