package main

import (
	"fmt"
	"os"
)

func main() {
	summary, err := check(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testcheck: %v\n", err)
		os.Exit(1)
	}
	if !summary.good() {
		os.Exit(1)
	}
}
