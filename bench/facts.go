package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// facts tells the time, machine and versions of the measurement.
func (r *report) facts() []string {
	library := "quorumlock"
	if r.revision != "" {
		library += " " + r.revision
	}
	return []string{
		fmt.Sprintf("%s, in %v", r.began.UTC().Format("2006-01-02 15:04 UTC"), r.took.Round(time.Second)),
		fmt.Sprintf("%s/%s, %d CPUs%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor()),
		fmt.Sprintf("%s; go-redsync %s over redigo %s; %s", library,
			versionOf("github.com/go-redsync/redsync/v4"), versionOf("github.com/gomodule/redigo"), runtime.Version()),
		r.servers + " on loopback, without persistence, on the same CPUs as the callers",
	}
}

// processor is the CPU's name, where the system tells it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return " (" + strings.TrimSpace(value) + ")"
		}
	}
	return ""
}

func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "?"
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "?"
}
