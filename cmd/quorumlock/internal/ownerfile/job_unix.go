//go:build unix

package ownerfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// JobOf returns the job that a process leads. It has not been waited for.
func JobOf(pid int) Job { return Job{Group: pid, Started: started(pid), Namespace: namespace()} }

func (j Job) lives() bool {
	exists := func() bool { return j.Group > 0 && !errors.Is(unix.Kill(-j.Group, 0), unix.ESRCH) }
	return exists() && !j.isOther() && exists() // its last process may be waited for while isOther looks
}

// isOther reports whether the processes with the group's number are certainly dead, or of another group that got the
// number. Where /proc is not as Linux has it, nothing is certain.
func (j Job) isOther() bool {
	if here := namespace(); here != "" && j.Namespace != "" && here != j.Namespace {
		return true
	}
	if !showsUs() {
		return false
	}
	seen := false
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		p := statOf(path)
		if p.group != fmt.Sprint(j.Group) {
			continue
		}
		// A job leads no session, as a daemon does. A process that is not waited for stays in its group.
		if p.pid == p.group && j.Started != "" && p.started != j.Started || p.session == p.group {
			return true
		}
		if !p.dead {
			return false
		}
		seen = true
	}
	return seen
}

func namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// showsUs reports whether /proc has the numbers of this namespace.
func showsUs() bool {
	self, _ := os.Readlink("/proc/self")
	return self == strconv.Itoa(os.Getpid())
}

func started(pid int) string {
	if !showsUs() {
		return ""
	}
	return statOf(fmt.Sprintf("/proc/%d/stat", pid)).started
}

// stat is what proc(5) says of a process.
type stat struct {
	pid, group, session, started string
	dead                         bool // all threads of it
}

// statOf reads a file of /proc. It returns a zero stat for a process that has ended.
func statOf(path string) stat {
	text, _ := os.ReadFile(path)
	pid, rest, _ := strings.Cut(string(text), " (")
	rest = rest[strings.LastIndex(rest, ")")+1:] // "pid (name) state parent group session ..."
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return stat{}
	}
	threads := fields[17]
	return stat{pid: pid, group: fields[2], session: fields[3], started: fields[19],
		dead: strings.Contains("ZX", fields[0]) && (threads == "0" || threads == "1")}
}
