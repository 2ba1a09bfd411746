//go:build !linux

package testservers

import "syscall"

// attributes puts the server into a process group of its own, which stop ends as a whole.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
