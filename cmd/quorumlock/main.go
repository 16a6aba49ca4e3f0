// Command quorumlock runs a command under a lock, shows who holds one, and deletes one. It demonstrates the lock on
// masters that it starts itself. It checks and admits the masters of a deployment, and changes their list.
//
// A subcommand is a row of [commands], from a package below internal; the help, the manual page and shell
// completion are made of the table.
package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/demo"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/members"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/run"
)

const description = `A URL is redis://[[user]:password@]host[:port][/database][?name=NAME], or with rediss, valkey,
valkeys or unix. With TLS, ?server-name=HOST is the name in the certificate. With ?prefix=P, all keys begin with P: and
are other locks. With ?failover=N, N replicas acknowledge each lock, and redis+sentinel://host,host/NAME?failover=N asks
Sentinel for the master.
The masters' URLs, separated by spaces or commas, come from the variable QUORUMLOCK_URLS or from the file of --urls-file,
because a command line shows passwords. Where a help shows URL they are arguments; without any, the variable counts if
the command changes nothing. All clients must know a master by the same name: the one in its URL, or host:port. Flags
take one dash or two, and come before the arguments.

Exit codes, unless the command's help (quorumlock run -h) has others: 0 if all is well, 1 if not, 2 if the command line
is invalid, 130 if interrupted.`

func main() { app().Main() }

// commands is the table of subcommands, in the order of the help.
var commands = slices.Concat(
	[]cli.Command{run.Command},
	locks.Commands,
	[]cli.Command{demo.Command, masters.Check, masters.Admit, members.Command, versionCommand},
)

func app() cli.App {
	version, _ := version()
	return cli.App{Description: description, Version: version, Commands: commands, Hints: locks.Hints}
}

// stamp is the version that make dist sets with -ldflags -X; without it, the module's version is used.
var stamp string

// versionCommand prints the version of the module, the revision and the toolchain, if the binary has them.
var versionCommand = cli.Command{
	Name: "version", Usage: "print the version of this command",
	Help: `Example:
  quorumlock version

Exit codes: 0.`,
	Define: func(*cli.Flags) cli.Action {
		return func(_ context.Context, p *cli.Program, _ []string) int {
			version, revision := version()
			fmt.Fprintf(p.Stdout, "quorumlock %s%s, %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return cli.ExitOK
		}
	},
}

func version() (version, revision string) {
	version = "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = ", revision " + s.Value + revision
			case s.Key == "vcs.modified" && s.Value == "true":
				revision += " with changes"
			}
		}
	}
	if stamp != "" {
		version = stamp
	}
	return version, revision
}
