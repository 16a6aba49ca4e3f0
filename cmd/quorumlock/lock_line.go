package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/urfave/cli/v3"
)

// lockLine is the command line of status, top or unlock.
type lockLine struct {
	names    []string // of locks on the masters
	slots    int      // of status: the names are semaphores with so many slots; 0 for locks
	slot     int      // of unlock: of the semaphores that the names are; −1 for locks
	all      bool
	json     bool   // of status
	quiet    bool   // of status
	watch    bool   // of status
	yes      bool   // of unlock
	owner    string // of unlock: whose locks are deleted; empty for those that are shown
	flags    *lineFlags
	maxLease time.Duration
	timeout  time.Duration
	urlsFile string
	tls      tlsFiles
}

// lockCommand makes a command over locks that are named, on the masters of the environment. more
// adds flags.
func (p *program) lockCommand(name, usage string, more func(*lineFlags, *lockLine),
	do func(context.Context, *lockLine, []*node.Node) (int, error)) *cli.Command {
	flags, line := &lineFlags{}, newLockLine()
	line.flags = flags
	more(flags, line)
	line.masterFlags(flags)
	return p.command(name, usage, "NAME...", flags, exitRunUsage, func(ctx context.Context, names []string) int {
		if err := line.takeNames(names); err != nil {
			p.misused(fmt.Sprintf("%s: %v", name, err))
			return exitRunUsage
		}
		return p.withMasters(ctx, name, line, do)
	})
}

func newLockLine() *lockLine {
	return &lockLine{slot: -1, maxLease: node.DefaultMaxLease, timeout: node.DefaultTimeout}
}

func (l *lockLine) masterFlags(flags *lineFlags) {
	flags.boolean("all", "all masters must grant a lock, not a majority", &l.all)
	flags.urlsFile(urlsNotInVariable, &l.urlsFile)
	l.tls.flags(flags)
	flags.timeouts(shortest, time.Millisecond, &l.maxLease, &l.timeout)
}

func (l *lockLine) takeNames(names []string) error {
	if len(names) == 0 {
		return errors.New("the name of a lock is missing")
	}
	for i, name := range names {
		if err := checkLockName(name); err != nil {
			return err
		}
		if i > 0 && strings.HasPrefix(name, "-") {
			return errors.New("flags come before the names")
		}
	}
	l.names = l.withSlots(names)
	return l.exclude()
}

// withSlots returns the names of the locks: of semaphores those of their slots.
func (l *lockLine) withSlots(names []string) (locks []string) {
	for _, name := range names {
		switch {
		case l.slots > 0:
			for slot := range l.slots {
				locks = append(locks, scripts.SlotName(name, slot))
			}
		case l.slot >= 0:
			locks = append(locks, scripts.SlotName(name, l.slot))
		default:
			locks = append(locks, name)
		}
	}
	return locks
}

// slotsFlag defines -slots: into is the number of slots.
func slotsFlag(flags *lineFlags, usage string, into *int) {
	flags.value("slots", usage, "a number from 1 to 1024", func(text string) error {
		n, err := strconv.Atoi(text)
		if *into = n; err == nil && (n < 1 || n > scripts.MaxSlots) {
			err = strconv.ErrRange
		}
		return err
	})
}

// exclude returns which of the flags exclude each other, or nil.
func (l *lockLine) exclude() error {
	switch {
	case l.json && l.quiet:
		return errors.New("-json and -q exclude each other")
	case l.watch && (l.json || l.quiet):
		return errors.New("-watch cannot be used with -json or -q")
	}
	return nil
}

func (l *lockLine) nodeOptions() []node.Option {
	return []node.Option{node.WithMaxLease(l.maxLease), node.WithTimeout(l.timeout), node.WithLogger(silent)}
}

// withMasters does a command with the masters. It reports an error in one line.
func (p *program) withMasters(ctx context.Context, command string, line *lockLine,
	do func(context.Context, *lockLine, []*node.Node) (int, error)) int {
	nodes, _, err := openMasters(line.urlsFile, line.tls, line.nodeOptions()...)
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
		fmt.Fprintf(p.stderr, "quorumlock: %s: %s\n", command, oneLine(err))
	}
	return code
}

// oneLine formats an error for a log that has one entry in a line.
func oneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), "quorumlock: ", "") // the package's, in the middle for wrapped errors
	return plain.Text(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
}
