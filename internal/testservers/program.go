package testservers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// BuildProgram builds the program under test, as the Makefile builds it, so that both share one build
// cache. version is what it says of itself.
func BuildProgram(ctx context.Context, path, version string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", path, "feedmirror/cmd/mirror")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}
