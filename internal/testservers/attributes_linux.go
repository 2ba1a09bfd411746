package testservers

import "syscall"

// attributes puts the server into a process group of its own, which stop ends as a whole, and
// lets the kernel end it when the test binary dies without a chance to do so (time limit, kill).
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
