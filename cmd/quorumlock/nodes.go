package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
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
	json    bool
	wait    time.Duration // 0 for not at all
	name    string        // of the member to remove
}

// removeMember is the command whose first argument is the name of a member.
const removeMember = "members remove"

// parse reads flags and URLs, and opens a node for each URL. The caller closes the nodes. When it
// returns false, it has printed the help or an error, no node is open, and the command ends with
// that code. It prints no URL and no value: any of them may hold a password.
func parse(command string, args []string, stdout, stderr io.Writer) (line commandLine, code int, ok bool) {
	flags := newFlags()
	maxLease, timeout := node.DefaultMaxLease, node.DefaultTimeout
	flags.duration("max-lease", 0, &maxLease)
	flags.duration("timeout", 0, &timeout)
	switch command {
	case "admit":
		flags.boolean("yes", &line.yes)
		flags.boolean("members", &line.members)
	case "check":
		flags.boolean("json", &line.json)
		flags.duration("wait", time.Millisecond, &line.wait)
	}
	urls, err := flags.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return line, help(stdout), false
	case err != nil:
		return line, misused(stderr, command+": "+err.Error()), false
	case len(urls) == 0:
		return line, misused(stderr, command+" needs the URL of at least one master"), false
	}
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
			n, err = node.Open(url, node.WithMaxLease(maxLease), node.WithTimeout(timeout), node.WithLogger(silent))
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

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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
