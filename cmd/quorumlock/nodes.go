package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/node"
)

// commandLine is what check and admit are given.
type commandLine struct {
	nodes []*node.Node
	yes   bool
}

// parse reads flags and URLs, and opens a node for each URL, which the caller closes. When it returns false it has printed what
// is wrong, and nothing is open. What it prints repeats no argument that may hold a password.
func parse(command string, args []string, stderr io.Writer) (commandLine, bool) {
	var line commandLine
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	maxLease := flags.Duration("max-lease", node.DefaultMaxLease, "")
	timeout := flags.Duration("timeout", node.DefaultTimeout, "")
	if command == "admit" {
		flags.BoolVar(&line.yes, "yes", false, "")
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		misused(stderr, "")
		return line, false
	case err != nil && strings.Contains(err.Error(), "://"):
		misused(stderr, command+": a flag was given a URL for its value")
		return line, false
	case err != nil:
		misused(stderr, command+": "+err.Error())
		return line, false
	case flags.NArg() == 0:
		misused(stderr, command+" needs the URL of at least one master")
		return line, false
	}

	for i, url := range flags.Args() {
		var n *node.Node
		if strings.HasPrefix(url, "-") {
			err = errors.New("flags come before the URLs")
		} else {
			n, err = node.Open(url, node.WithMaxLease(*maxLease), node.WithTimeout(*timeout))
		}
		if err != nil {
			closeAll(line.nodes)
			fmt.Fprintf(stderr, "quorumlock: %s: URL %d: %v\n", command, i+1, err)
			return line, false
		}
		line.nodes = append(line.nodes, n)
	}
	return line, true
}

// each asks all nodes at once and returns the answers in the nodes' order.
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

// reason is an error without the node's name, for where that stands already.
func reason(err error) string {
	var failed *node.Error
	if errors.As(err, &failed) {
		return fmt.Sprintf("%s: %v", failed.Op, failed.Err)
	}
	return err.Error()
}
