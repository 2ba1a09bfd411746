package localstore

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

func notFolder(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
}

func ioFailed(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ESTALE)
}

// noHardLinks reports whether a file system refused to link at all.
func noHardLinks(err error) bool {
	var link *os.LinkError
	if !errors.As(err, &link) || link.Op != "link" {
		return false
	}
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS)
}

// inode returns the number that tells two files of one size and time apart.
func inode(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "0"
	}
	return strconv.FormatUint(stat.Ino, 36)
}
