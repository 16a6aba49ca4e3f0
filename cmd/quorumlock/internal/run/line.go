//go:build unix

package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// defaultGrace is the time from SIGTERM to SIGKILL, if the lease and -max-hold are long enough.
const defaultGrace = 5 * time.Second

type line struct {
	names   []string
	command []string

	slots    int // of the semaphore that is named; 0 for locks
	noWait   bool
	wait     time.Duration // at most; 0 for no bound; −1 while flags are read: not given
	heldCode int
	grace    time.Duration
	maxHold  time.Duration // 0 for no bound
	minHold  time.Duration // 0 for none
	lease    time.Duration
	all      bool
	existing bool // the masters are a deployment already
	hideURLs bool // the command's environment is without QUORUMLOCK_URLS
	access   masters.Access
	urls     []string         // of the masters, once they are open
	label    string           // of the locker's identity
	file     string           // of the owner; empty for none
	owner    *ownerfile.File  // once it is open; nil for none
	record   ownerfile.Record // of this run, without its lock
	flags    *cli.Flags
}

func newLine(flags *cli.Flags) *line {
	l := &line{heldCode: cli.ExitHeld, grace: -1, wait: -1, flags: flags}
	flags.Number("slots", "take one of `N` slots of the semaphore NAME: at most N commands at a time, each with its QUORUMLOCK_SLOT",
		"a number", 1, scripts.MaxSlots, &l.slots)
	flags.Boolean("n", "do not wait for the lock", &l.noWait)
	flags.Duration("w", "wait for the lock for `D` at most: in a crontab, for less than its period, or waiting processes pile up", 0, &l.wait)
	flags.Value("E", "exit with `N`, not 75, if another holds the lock; with 0 print nothing then", "an exit code from 0 to 255",
		func(text string) error {
			code, err := strconv.ParseUint(text, 10, 8)
			l.heldCode = int(code)
			return err
		})
	flags.Duration("k", "send SIGTERM `D` before the lock ends, and SIGKILL when it ends (5s, or a third of the lease if that is less; at most half)",
		0, &l.grace)
	flags.Duration("max-hold", "hold the lock for `D` at most", masters.Shortest, &l.maxHold)
	flags.Duration("min-hold", "after the command, keep the lock until it was held for `D`: one run per period",
		masters.Shortest, &l.minHold)
	flags.Duration("lease", "a grant lasts `D` (30s)", masters.Shortest, &l.lease)
	flags.Text("label", "describe the holder as `TEXT`, next to host and process; not a secret (the command's name)",
		"printable text", scripts.ValidLabel, &l.label)
	flags.Path("owner-file", "write to `FILE` who holds the lock while the command runs; if a run that died has left it behind, "+
		"release that one's lock first", &l.file)
	flags.Boolean("all", "all masters must grant the lock, not a majority", &l.all)
	flags.Boolean("existing", "never found a deployment on masters that are all new: use it once the first client has locked", &l.existing)
	flags.Boolean("hide-urls", "keep QUORUMLOCK_URLS, and the passwords in it, out of the command's environment", &l.hideURLs)
	l.access.Flags(flags)
	return l
}

// take takes the arguments after the flags: the names, and after -- the command.
func (l *line) take(args, job []string) error {
	if err := l.takeArguments(args, job); err != nil {
		return err
	}
	if l.wait >= 0 && l.noWait {
		return errors.New("use -n or -w, not both")
	}
	l.noWait, l.wait = l.noWait || l.wait == 0, max(l.wait, 0)
	if name := filepath.Base(l.command[0]); l.label == "" && scripts.ValidLabel(name) {
		l.label = name
	}
	return l.settleTimes()
}

func (l *line) takeArguments(args, job []string) error {
	switch {
	case len(args) == 0 && len(job) != 1:
		return errors.New("the name of the lock is missing")
	case len(args) != 1 || len(job) == 0:
		return errors.New("after the name comes -- and then the command; flags come before the name")
	case len(job) == 1:
		return errors.New("the command after -- is missing")
	}
	l.names, l.command = strings.Split(args[0], ","), job[1:]
	for _, name := range l.names {
		if err := masters.CheckLockName(name); err != nil {
			return err
		}
		if len(l.names) > 1 && strings.TrimSpace(name) != name { // "b" and " b" exclude nobody from each other
			return fmt.Errorf("between the names is more than a comma: %q is another lock than %q", name, strings.TrimSpace(name))
		}
	}
	if err := ownerfile.CheckNames(l.names); l.file != "" && err != nil {
		return err
	}
	if l.slots > 0 && len(l.names) > 1 {
		return errors.New("-slots takes one name")
	}
	if l.command[0] == "" {
		return errors.New("the command after -- is empty")
	}
	return nil
}

// settleTimes checks the times against each other, and sets the default lease and grace.
func (l *line) settleTimes() error {
	if l.lease == 0 {
		l.lease = min(quorum.DefaultLease, l.access.MaxLease)
	}
	if l.lease > l.access.MaxLease {
		return fmt.Errorf("-lease %v is above the max lease %v: the lock is renewed while the command runs, and -max-hold bounds how long", l.lease, l.access.MaxLease)
	}
	if l.maxHold > 0 && l.minHold > l.maxHold {
		return fmt.Errorf("-min-hold %v is above -max-hold %v", l.minHold, l.maxHold)
	}
	// A lock in order is renewed when a third of its lease is over, so at least two thirds are
	// left. The rest is for renewals that are late or tried again.
	switch most := l.lease / 2; {
	case l.grace < 0:
		l.grace = min(defaultGrace, l.lease/3)
		if l.maxHold > 0 {
			l.grace = min(l.grace, l.maxHold/2)
		}
	case l.grace > most:
		return fmt.Errorf("-k %v is more than half of the lease %v: a late renewal would end the command",
			l.grace, l.lease)
	case l.maxHold > 0 && l.grace >= l.maxHold:
		return fmt.Errorf("-k %v is not below -max-hold %v", l.grace, l.maxHold)
	}
	// Package node knows the bounds of its options. It connects on first use only.
	n, err := node.Open("redis://localhost", l.access.Options()...)
	if err != nil {
		return err
	}
	return n.Close()
}
