package rows

import (
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

// open returns the file for reading its pages, after footer and page headers were checked.
func (p Part) open() (*parquet.File, error) {
	if err := parquetinfo.CheckPages(p.File, p.Size); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
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
