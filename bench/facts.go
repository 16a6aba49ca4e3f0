package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// facts returns the time, machine and versions of the measurement.
func (r *report) facts() []string {
	library := "quorumlock"
	if r.revision != "" {
		library += " " + r.revision
	}
	versions := []string{library, runtime.Version()}
	for _, module := range []string{"github.com/go-redsync/redsync/v4", "github.com/gomodule/redigo",
		"github.com/redis/go-redis/v9", "github.com/redis/rueidis", "github.com/bsm/redislock",
		"go.etcd.io/etcd/client/v3"} {
		versions = append(versions, strings.TrimPrefix(module, "github.com/")+" "+versionOf(module))
	}
	facts := []string{
		fmt.Sprintf("%s, in %v", r.began.UTC().Format("2006-01-02 15:04 UTC"), r.took.Round(time.Second)),
		fmt.Sprintf("%s/%s, %d CPUs%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor()),
		strings.Join(versions, "; "),
		r.servers + " on loopback, without persistence, on the same CPUs as the callers",
	}
	if r.etcd != "" {
		facts = append(facts, r.etcd)
	}
	if r.load != "" {
		facts = append(facts, "load average before the run: "+r.load)
	}
	return facts
}

// loadAverage returns how busy the machine is, if the system says.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], ", ") + " (of 1, 5 and 15 minutes)"
}

// processor is the CPU's name, if the system says.
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
