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

// soundness is what a look at all pages of a file gave.
type soundness struct {
	largestPage int64 // bytes, packed and unpacked
	err         error
}

// checkPages looks at footer and page headers of files, once an audit, one file after the other: it may take two
// pages of the greatest size. Errors are told by whoever opens the file.
func (a *auditor) checkPages(lists ...[]Part) error {
	for _, list := range lists {
		for _, part := range list {
			if err := a.alive(); err != nil {
				return err
			}
			if _, known := a.sound[part.File]; !known {
				a.sound[part.File] = a.soundnessOf(part)
			}
		}
	}
	return nil
}

func (a *auditor) soundnessOf(p Part) (s soundness) {
	groups, err := parquetinfo.CheckPages(p.File, p.Size)
	if err != nil {
		return soundness{err: fmt.Errorf("%s: %w", p.Name, err)}
	}
	for number, group := range groups {
		s.largestPage = max(s.largestPage, group.LargestPage)
		if open := group.LargestPages + int64(group.Columns)*readBuffer; group.Rows > int64(a.window) && open > maxOpenBytes {
			s.err = fmt.Errorf("%s: row group %d has %d rows and pages of %d bytes side by side: %w", p.Name, number, group.Rows, group.LargestPages, errTooLarge)
		}
	}
	return s
}

// open returns a file for reading its pages, which were checked.
func (a *auditor) open(p Part) (*parquet.File, error) {
	if err := a.sound[p.File].err; err != nil {
		return nil, err
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
