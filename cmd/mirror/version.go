package main

import (
	"context"
	"fmt"
	"runtime"

	"feedmirror/manifest"
)

type versionCommand struct{}

// Run implements command.
func (*versionCommand) Run(_ context.Context, env environment) (int, error) {
	_, err := fmt.Fprintf(env.out, "mirror %s (bucket layout %d, %s, %s/%s)\n", version, manifest.LayoutVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0, err
}
