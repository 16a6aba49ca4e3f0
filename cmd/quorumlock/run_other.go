//go:build !unix

package main

import (
	"fmt"
	"io"
	"runtime"
)

// runJob says that the command is absent: without process groups and signals a job could not be
// ended when its lock is lost.
func runJob(_ []string, _, stderr io.Writer) int {
	fmt.Fprintf(stderr, "quorumlock: run: there is no such command on %s, which lacks process groups and signals\n",
		runtime.GOOS)
	return exitUnavailable
}
