package localstore

import (
	"errors"
	"io/fs"
	"os"
)

// Step is one change that the store asks of the file system.
type Step string

// The steps of a write.
const (
	StepFolder Step = "mkdir"  // make a folder
	StepStage  Step = "open"   // make a staging file
	StepWrite  Step = "write"  // write to it
	StepMode   Step = "chmod"  // give it the permissions of its key
	StepFlush  Step = "fsync"  // flush a file or a folder
	StepLink   Step = "link"   // give it its key, which is free
	StepRename Step = "rename" // give it its key, which is taken
	StepRemove Step = "remove" // remove a name
)

// system changes files. A test can make any step fail in its place.
type system struct {
	before func(step Step, path string) error // nil: never fails
}

func (y system) do(step Step, path string, op func() error) error {
	if y.before != nil {
		if err := y.before(step, path); err != nil {
			if step == StepLink || step == StepRename {
				return &os.LinkError{Op: string(step), New: path, Err: err}
			}
			return &fs.PathError{Op: string(step), Path: path, Err: err}
		}
	}
	return op()
}

func (y system) mkdir(path string) error {
	return y.do(StepFolder, path, func() error { return os.Mkdir(path, folderMode) })
}

func (y system) create(path string) (file *os.File, err error) {
	err = y.do(StepStage, path, func() error {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, stagedMode)
		return err
	})
	return file, err
}

func (y system) write(file *os.File, data []byte) error {
	return y.do(StepWrite, file.Name(), func() error {
		_, err := file.Write(data)
		return err
	})
}

func (y system) chmod(file *os.File, mode fs.FileMode) error {
	return y.do(StepMode, file.Name(), func() error { return file.Chmod(mode) })
}

func (y system) flush(file *os.File) error { return y.do(StepFlush, file.Name(), file.Sync) }

// flushFolder flushes a folder's entries to disk.
func (y system) flushFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(y.flush(folder), folder.Close())
}

func (y system) link(from, to string) error {
	return y.do(StepLink, to, func() error { return os.Link(from, to) })
}

func (y system) rename(from, to string) error {
	return y.do(StepRename, to, func() error { return os.Rename(from, to) })
}

func (y system) remove(path string) error {
	return y.do(StepRemove, path, func() error { return os.Remove(path) })
}
