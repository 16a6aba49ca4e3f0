//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// defaultGrace is the time from SIGTERM to SIGKILL, where the lease and -max-hold leave as much.
const defaultGrace = 5 * time.Second

// shortest is the least lease, and the least max hold, that package quorum takes.
const shortest = 10 * time.Millisecond

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
// repeating an argument, any of which may hold a password.
func parseRun(args []string) (*runLine, error) {
	l := &runLine{heldCode: exitHeld, grace: -1, maxLease: node.DefaultMaxLease, timeout: node.DefaultTimeout}
	wait := time.Duration(-1)
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	wrong := "unknown flag" // a known flag with a wrong value replaces it
	value := func(name, needs string, set func(text string) error) {
		flags.Func(name, "", func(text string) error {
			err := set(text)
			if err != nil {
				wrong = "-" + name + " needs " + needs
			}
			return err
		})
	}
	duration := func(name string, least time.Duration, d *time.Duration) {
		value(name, fmt.Sprintf("a duration such as 30s, at least %v", least), func(text string) (err error) {
			if *d, err = time.ParseDuration(text); err == nil && *d < least {
				err = errors.New("too short")
			}
			return err
		})
	}
	boolean := func(name string, b *bool) {
		flags.BoolFunc(name, "", func(text string) (err error) {
			if *b, err = strconv.ParseBool(text); err != nil {
				wrong = "-" + name + " is given alone"
			}
			return err
		})
	}
	boolean("n", &l.noWait)
	boolean("all", &l.all)
	duration("w", 0, &wait)
	duration("k", 0, &l.grace)
	duration("max-hold", shortest, &l.maxHold)
	duration("min-hold", shortest, &l.minHold)
	duration("lease", shortest, &l.lease)
	duration("max-lease", shortest, &l.maxLease)
	duration("timeout", time.Millisecond, &l.timeout)
	value("E", "an exit code from 0 to 255", func(text string) error {
		code, err := strconv.ParseUint(text, 10, 8)
		l.heldCode = int(code)
		return err
	})
	value("urls-file", "the path of a file, not a URL", func(text string) error {
		l.urlsFile = text
		if text == "" || strings.Contains(text, "://") {
			return errors.New("no path")
		}
		return nil
	})

	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil && strings.HasPrefix(err.Error(), "flag needs an argument: "):
		return nil, err // it names a known flag only
	case err != nil:
		return nil, errors.New(wrong)
	}
	if err := l.takeArguments(flags.Args()); err != nil {
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
		scheme, _, isURL := strings.Cut(name, "://")
		switch {
		case name == "":
			return errors.New("a name is empty")
		case isURL && strings.Contains(" redis rediss valkey valkeys unix ", " "+scheme+" "):
			return errors.New("the masters' URLs do not belong on the command line, where passwords show: see " +
				urlsVariable + " and -urls-file")
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

// urls returns the masters' URLs, from the file or else the environment.
func (l *runLine) urls() ([]string, error) {
	text, from := os.Getenv(urlsVariable), urlsVariable
	if l.urlsFile != "" {
		content, err := os.ReadFile(l.urlsFile)
		if err != nil {
			return nil, err
		}
		text, from = withoutComments(string(content)), l.urlsFile
	}
	urls := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || strings.ContainsRune(" \t\r\n", r) })
	if len(urls) == 0 {
		return nil, fmt.Errorf("no masters in %s: their URLs come from the variable %s, or the file of -urls-file",
			from, urlsVariable)
	}
	return urls, nil
}

// withoutComments drops the lines that begin with #.
func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
