package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// silent is the logger of the command, which itself prints what there is to say.
var silent = slog.New(slog.DiscardHandler)

// commandLine is the command line of check, admit or members.
type commandLine struct {
	nodes   []*node.Node
	yes     bool
	members bool
	name    string // of the member to remove
}

// removeMember is the command whose first argument is the name of a member.
const removeMember = "members remove"

// parse reads flags and URLs, and opens a node for each URL. The caller closes the nodes. When it
// returns false, it has printed the help or an error, no node is open, and the command ends with
// that code. It prints no argument: any of them, even a mistyped flag, may hold a password.
func parse(command string, args []string, stdout, stderr io.Writer) (line commandLine, code int, ok bool) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	wrong := "unknown flag" // a known flag with a wrong value replaces it
	duration := func(name string, value time.Duration) *time.Duration {
		flags.Func(name, "", func(text string) (err error) {
			if value, err = time.ParseDuration(text); err != nil {
				wrong = "-" + name + " needs a duration, such as 30s or 500ms"
			}
			return err
		})
		return &value
	}
	maxLease := duration("max-lease", node.DefaultMaxLease)
	timeout := duration("timeout", node.DefaultTimeout)
	boolean := func(name string, value *bool) {
		flags.BoolFunc(name, "", func(text string) (err error) {
			if *value, err = strconv.ParseBool(text); err != nil {
				wrong = fmt.Sprintf("-%s is given alone, or as -%[1]s=true or -%[1]s=false", name)
			}
			return err
		})
	}
	if command == "admit" {
		boolean("yes", &line.yes)
		boolean("members", &line.members)
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return line, help(stdout), false
	case err != nil && strings.HasPrefix(err.Error(), "flag needs an argument: "):
		return line, misused(stderr, command+": "+err.Error()), false // the error names a known flag only
	case err != nil:
		return line, misused(stderr, command+": "+wrong), false
	case flags.NArg() == 0:
		return line, misused(stderr, command+" needs the URL of at least one master"), false
	}

	urls := flags.Args()
	if command == removeMember {
		if line.name, urls = urls[0], urls[1:]; strings.Contains(line.name, "://") || len(urls) == 0 {
			return line, misused(stderr, command+" needs the name of the member, and then the URLs of the present list"), false
		}
	}
	for i, url := range urls {
		var n *node.Node
		if strings.HasPrefix(url, "-") {
			err = errors.New("flags come before the URLs")
		} else {
			n, err = node.Open(url, node.WithMaxLease(*maxLease), node.WithTimeout(*timeout), node.WithLogger(silent))
		}
		if err != nil {
			closeAll(line.nodes)
			fmt.Fprintf(stderr, "quorumlock: %s: URL %d: %v\n", command, i+1, err)
			return line, exitUsage, false
		}
		line.nodes = append(line.nodes, n)
	}
	return line, exitOK, true
}

// each calls ask for all nodes at once, and returns the answers in the nodes' order.
func each[T any](ctx context.Context, nodes []*node.Node, ask func(context.Context, *node.Node) T) []T {
	answers := make([]T, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() { answers[i] = ask(ctx, n) })
	}
	asking.Wait()
	return answers
}

func closeAll(nodes []*node.Node) {
	each(context.Background(), nodes, func(_ context.Context, n *node.Node) error { return n.Close() })
}

// reason formats an error without the node's name, which the caller prints.
func reason(err error) string {
	var failed *node.Error
	if errors.As(err, &failed) {
		return fmt.Sprintf("%s: %v", failed.Op, failed.Err)
	}
	return err.Error()
}
