//go:build unix

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// defaultGrace is the time from SIGTERM to SIGKILL, where the lease and -max-hold leave as much.
const defaultGrace = 5 * time.Second

// runLine is the command line of run.
type runLine struct {
	names   []string
	command []string

	noWait   bool
	wait     time.Duration // at most; 0 for no bound
	heldCode int
	grace    time.Duration
	maxHold  time.Duration // 0 for no bound
	minHold  time.Duration // 0 for none
	lease    time.Duration
	maxLease time.Duration
	timeout  time.Duration
	all      bool
	urlsFile string
}

// parseRun reads the command line. The error is flag.ErrHelp, or says what is wrong without
// repeating a value, which may hold a password.
func parseRun(args []string) (*runLine, error) {
	l := &runLine{heldCode: exitHeld, grace: -1, maxLease: node.DefaultMaxLease, timeout: node.DefaultTimeout}
	wait := time.Duration(-1)
	flags := newFlags()
	flags.boolean("n", &l.noWait)
	flags.boolean("all", &l.all)
	flags.duration("w", 0, &wait)
	flags.duration("k", 0, &l.grace)
	flags.duration("max-hold", shortest, &l.maxHold)
	flags.duration("min-hold", shortest, &l.minHold)
	flags.duration("lease", shortest, &l.lease)
	flags.duration("max-lease", shortest, &l.maxLease)
	flags.duration("timeout", time.Millisecond, &l.timeout)
	flags.value("E", "an exit code from 0 to 255", func(text string) error {
		code, err := strconv.ParseUint(text, 10, 8)
		l.heldCode = int(code)
		return err
	})
	flags.urlsFile(&l.urlsFile)
	rest, err := flags.parse(args)
	if err != nil {
		return nil, err
	}
	if err := l.takeArguments(rest); err != nil {
		return nil, err
	}
	if wait >= 0 {
		if l.noWait {
			return nil, errors.New("-n and -w exclude each other")
		}
		l.wait, l.noWait = wait, wait == 0
	}
	return l, l.settleTimes()
}

// takeArguments reads NAME[,NAME...] -- COMMAND [ARGUMENT...].
func (l *runLine) takeArguments(args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("the name of the lock is missing")
	case len(args) < 2 || args[1] != "--":
		return errors.New("after the name comes -- and then the command; flags come before the name")
	case len(args) == 2:
		return errors.New("the command after -- is missing")
	}
	l.names, l.command = strings.Split(args[0], ","), args[2:]
	for _, name := range l.names {
		if err := checkLockName(name); err != nil {
			return err
		}
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
	// A lock in order is renewed when a third of its lease is over, so at least two thirds are left.
	// The rest is for renewals that are late or tried again.
	switch most := l.lease / 2; {
	case l.grace < 0:
		l.grace = min(defaultGrace, l.lease/3)
		if l.maxHold > 0 {
			l.grace = min(l.grace, l.maxHold/2)
		}
	case l.grace > most:
		return fmt.Errorf("-k %v is more than half of the lease %v: a renewal that is late would end the command",
			l.grace, l.lease)
	case l.maxHold > 0 && l.grace >= l.maxHold:
		return fmt.Errorf("-k %v leaves nothing of -max-hold %v", l.grace, l.maxHold)
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
