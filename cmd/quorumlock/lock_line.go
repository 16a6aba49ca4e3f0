package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// lockLine is the command line of status or unlock.
type lockLine struct {
	names    []string
	all      bool
	json     bool // of status
	quiet    bool // of status
	yes      bool // of unlock
	maxLease time.Duration
	timeout  time.Duration
	urlsFile string
}

func parseLock(command string, args []string) (*lockLine, error) {
	l := &lockLine{maxLease: node.DefaultMaxLease, timeout: node.DefaultTimeout}
	flags := newFlags()
	flags.boolean("all", &l.all)
	flags.duration("max-lease", shortest, &l.maxLease)
	flags.duration("timeout", time.Millisecond, &l.timeout)
	flags.urlsFile(&l.urlsFile)
	if command == "unlock" {
		flags.boolean("yes", &l.yes)
	} else {
		flags.boolean("json", &l.json)
		flags.boolean("q", &l.quiet)
	}
	names, err := flags.parse(args)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, errors.New("the name of a lock is missing")
	case l.json && l.quiet:
		return nil, errors.New("-json and -q exclude each other")
	}
	for i, name := range names {
		if err := checkLockName(name); err != nil {
			return nil, err
		}
		if i > 0 && strings.HasPrefix(name, "-") {
			return nil, errors.New("flags come before the names")
		}
	}
	l.names = names
	return l, nil
}

func (l *lockLine) nodeOptions() []node.Option {
	return []node.Option{node.WithMaxLease(l.maxLease), node.WithTimeout(l.timeout), node.WithLogger(silent)}
}

// withMasters reads the command line of status or unlock, and does it with the masters.
func withMasters(ctx context.Context, command string, args []string, stdout, stderr io.Writer,
	do func(context.Context, *lockLine, []*node.Node) (int, error)) int {
	line, err := parseLock(command, args)
	if errors.Is(err, flag.ErrHelp) {
		return help(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "quorumlock: %s: %v (see quorumlock help)\n", command, err)
		return exitRunUsage
	}
	nodes, err := openMasters(line.urlsFile, line.nodeOptions()...)
	code := exitOK
	if err == nil {
		defer closeAll(nodes)
		code, err = do(ctx, line, nodes)
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "quorumlock: %s: %s\n", command, oneLine(err))
	}
	return code
}

// oneLine formats an error for a log that has one entry in a line.
func oneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), "quorumlock: ", "") // the package's, in the middle for wrapped errors
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}
