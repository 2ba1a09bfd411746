// Command mirror copies every version that a Ploti Data Feed releases into a bucket of its user's,
// and audits what is there. See mirror --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"feedmirror/mirror"
)

// version is stamped by the build.
var version = "unknown"

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		if first == os.Interrupt {
			cancel(mirror.ErrInterrupted)
		} else {
			cancel(mirror.ErrTerminated)
		}
		if <-signals == os.Interrupt { // a second one does not wait for anything
			os.Exit(mirror.ExitInterrupted)
		}
		os.Exit(mirror.ExitTerminated)
	}()
	os.Exit(run(ctx, os.Args[1:], system()))
}
