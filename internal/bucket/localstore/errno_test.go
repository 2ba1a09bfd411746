package localstore

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"feedmirror/internal/fault"
)

// TestErrno: what the file system says becomes a kind and a hint, without the folder's path.
func TestErrno(t *testing.T) {
	for errno, want := range map[syscall.Errno]fault.Kind{
		syscall.ENOSPC: fault.NoSpace, syscall.EDQUOT: fault.NoSpace,
		syscall.EACCES: fault.Denied, syscall.EROFS: fault.Denied, syscall.EPERM: fault.Denied,
		syscall.ENOENT: fault.NotFound, syscall.ENOTDIR: fault.Unsupported, syscall.EIO: fault.Transient,
		syscall.EBADF: fault.Internal,
	} {
		err := (&Store{root: "/"}).linkHint("create file", "k", &fs.PathError{Op: "write", Path: "/srv/secret/k", Err: errno})
		if !fault.Is(err, want) || strings.Contains(err.Error(), "/srv") {
			t.Errorf("%v: got %v (%s), want %s", errno, err, fault.KindOf(err), want)
		}
		if hinted := want != fault.NotFound && want != fault.Internal; hinted != (fault.HintOf(err) != "") {
			t.Errorf("%v: hint %q", errno, fault.HintOf(err))
		}
	}
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP} {
		err := (&Store{root: "/"}).linkHint("create file", "k", &os.LinkError{Op: "link", Old: "/srv/a", New: "/srv/b", Err: errno})
		if !fault.Is(err, fault.BucketUnfit) || !strings.Contains(fault.HintOf(err), "hard links") {
			t.Errorf("link, %v: %v, hint %q", errno, err, fault.HintOf(err))
		}
	}
}
