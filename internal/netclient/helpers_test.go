package netclient_test

import (
	"io"
	"log"
	"os"
	"os/exec"
	"testing"
)

// rerun runs the calling test again in a process of its own with these settings added.
func rerun(t *testing.T, settings ...string) ([]byte, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	command.Env = append(os.Environ(), "NETCLIENT_CHILD=1")
	command.Env = append(command.Env, settings...)
	return command.CombinedOutput()
}

// quietLog drops what a server prints about handshakes that a test wants refused.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }
