package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// stamp is the version that make dist gives with -ldflags -X. Without it the module's counts.
var stamp string

// printVersion prints the version of the module, the revision and the toolchain, as far as the
// binary has them.
func printVersion(stdout io.Writer) int {
	version, revision := version()
	fmt.Fprintf(stdout, "quorumlock %s%s, %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
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
