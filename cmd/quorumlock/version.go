package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
)

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
