package rows

import (
	"errors"
	"fmt"
	"os"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/parquetinfo"
)

// readBuffer is how much of a column is read at once, in bytes.
const readBuffer = 256 << 10

// Part is one Parquet file of a version, as a local file whose bytes were verified.
type Part struct {
	Name string // its manifest path, for messages
	File *os.File
	Size int64
}

// errTooLarge is a file that cannot be read in bounded memory: no finding, since nothing is wrong with it.
var errTooLarge = errors.New("it cannot be read in bounded memory")

// open returns a file for reading its pages, after footer and page headers were checked, once an audit.
func (a *auditor) open(p Part) (*parquet.File, error) {
	a.mu.Lock()
	sound := a.sound[p.File]
	a.mu.Unlock()
	if !sound {
		groups, err := parquetinfo.CheckPages(p.File, p.Size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		for number, group := range groups {
			if open := group.LargestPages + int64(group.Columns)*readBuffer; group.Rows > int64(a.window) && open > maxOpenBytes {
				return nil, fmt.Errorf("%s: row group %d has %d rows and pages of %d bytes side by side: %w", p.Name, number, group.Rows, group.LargestPages, errTooLarge)
			}
		}
		a.mu.Lock()
		a.sound[p.File] = true
		a.mu.Unlock()
	}
	file, err := parquetinfo.Open(p.File, p.Size, readBuffer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return file, nil
}

// recoverTo turns a panic of the Parquet library, which trusts pages, into an error about a part.
func recoverTo(name string, err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%s: its pages make the decoder panic: %v", name, cause)
	}
}
