//go:build !unix

package run

import (
	"context"
	"fmt"
	"runtime"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
)

// Command says that it is absent: without process groups and signals a job could not be ended when its lock is lost.
var Command = cli.Command{
	Name: "run", Usage: "not on this system", Arguments: " ", Help: help, Misuse: cli.ExitLockUsage, Job: true,
	Define: func(*cli.Flags) cli.Action {
		return func(_ context.Context, p *cli.Program, _ []string) int {
			fmt.Fprintf(p.Stderr, "quorumlock: run: there is no such command on %s, which lacks process groups and signals\n",
				runtime.GOOS)
			return cli.ExitUnavailable
		}
	},
}
