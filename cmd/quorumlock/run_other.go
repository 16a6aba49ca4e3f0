//go:build !unix

package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/urfave/cli/v3"
)

// runCommand says that the command is absent: without process groups and signals a job could not be
// ended when its lock is lost.
func (p *program) runCommand(_ []string) *cli.Command {
	return p.command(runName, "not on this system", " ", &lineFlags{}, exitRunUsage, func(context.Context, []string) int {
		fmt.Fprintf(p.stderr, "quorumlock: run: there is no such command on %s, which lacks process groups and signals\n",
			runtime.GOOS)
		return exitUnavailable
	})
}
