package testservers

import (
	"fmt"
	"os"
	"path/filepath"
)

// findTool returns the path of a program that `make tools` installed. It looks for .tools/bin
// in dir and in each folder above it, so that a test finds it from its package's folder.
func findTool(dir, name string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		program := filepath.Join(at, ".tools", "bin", name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("find %s: it is in no .tools/bin of %s or above; type: make tools", name, dir)
		}
	}
}
