//go:build unix

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// defaultGrace is the time from SIGTERM to SIGKILL, if the lease and -max-hold leave as much.
const defaultGrace = 5 * time.Second

// runLine is the command line of run.
type runLine struct {
	names   []string
	command []string

	slots    int // the name is a semaphore with so many slots; 0 for locks
	noWait   bool
	wait     time.Duration // at most; 0 for no bound; while flags are read −1 for none
	heldCode int
	grace    time.Duration
	maxHold  time.Duration // 0 for no bound
	minHold  time.Duration // 0 for none
	lease    time.Duration
	maxLease time.Duration
	timeout  time.Duration
	all      bool
	existing bool // the masters are a deployment already
	urlsFile string
	tls      tlsFiles
	urls     []string // of the masters, once they are open
	label    string   // of the locker's identity
	flags    *lineFlags
}

// newRunLine returns a command line, and the flags that set it.
func newRunLine() (*runLine, *lineFlags) {
	l, flags := &runLine{
		heldCode: exitHeld, grace: -1, maxLease: node.DefaultMaxLease, timeout: node.DefaultTimeout, wait: -1,
	}, &lineFlags{}
	l.flags = flags
	slotsFlag(flags, "take one of `N` slots of the semaphore NAME: at most N commands at a time, "+
		"each with its QUORUMLOCK_SLOT", &l.slots)
	flags.boolean("n", "do not wait for the lock", &l.noWait)
	flags.duration("w", "wait for the lock for `D` at most", 0, &l.wait)
	flags.value("E", "exit with `N`, not 75, if another holds the lock; with 0 print nothing then", "an exit code from 0 to 255",
		func(text string) error {
			code, err := strconv.ParseUint(text, 10, 8)
			l.heldCode = int(code)
			return err
		})
	flags.duration("k", "send SIGTERM `D` before the lock ends, and SIGKILL when it ends (5s, or a third of the lease if that is less; at most half)",
		0, &l.grace)
	flags.duration("max-hold", "hold the lock for `D` at most", shortest, &l.maxHold)
	flags.duration("min-hold", "after the command, keep the lock until it was held for `D`: one run per period",
		shortest, &l.minHold)
	flags.duration("lease", "a grant lasts `D` (30s)", shortest, &l.lease)
	flags.value("label", "describe the holder as `TEXT`, beside host and process; not a secret (the command's name)",
		"printable text", func(text string) error {
			if l.label = text; !scripts.ValidLabel(text) {
				return errors.New("not printable")
			}
			return nil
		})
	flags.boolean("all", "all masters must grant the lock, not a majority", &l.all)
	flags.boolean("existing", "never found a deployment on masters that are all new: use it once the first client has locked", &l.existing)
	flags.urlsFile(urlsNotInVariable, &l.urlsFile)
	l.tls.flags(flags)
	flags.timeouts(shortest, time.Millisecond, &l.maxLease, &l.timeout)
	return l, flags
}

// take takes what follows the flags: the names, and from -- on the command.
func (l *runLine) take(args, job []string) error {
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

// takeArguments reads NAME[,NAME...] and -- COMMAND [ARGUMENT...].
func (l *runLine) takeArguments(args, job []string) error {
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
		if err := checkLockName(name); err != nil {
			return err
		}
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
func (l *runLine) settleTimes() error {
	if l.lease == 0 {
		l.lease = min(quorum.DefaultLease, l.maxLease)
	}
	if l.lease > l.maxLease {
		return fmt.Errorf("-lease %v is above the max lease %v", l.lease, l.maxLease)
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
	n, err := node.Open("redis://localhost", l.nodeOptions()...)
	if err != nil {
		return err
	}
	return n.Close()
}

func (l *runLine) nodeOptions() []node.Option {
	return []node.Option{node.WithMaxLease(l.maxLease), node.WithTimeout(l.timeout), node.WithLogger(silent)}
}
