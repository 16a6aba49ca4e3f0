package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/node"
	"github.com/urfave/cli/v3"
)

// silent is the logger of the command, which itself prints what there is to say.
var silent = slog.New(slog.DiscardHandler)

// commandLine is the command line of check, admit or members.
type commandLine struct {
	nodes   []*node.Node
	urls    []string // of the nodes
	file    string   // that has the URLs; empty for none
	yes     bool
	members bool
	json    bool
	wait    time.Duration // of check: for a majority that grants; 0 for not at all
	waitAll time.Duration // of check: for all masters; likewise
	tryName string        // of check: the lock to try; empty for a reserved one
	waitOut bool          // of members add and remove: until the masters take the next change
	name    string        // of the member to remove
	tls     tlsFiles

	maxLease, timeout time.Duration
	err               error // of a URL
}

// removeMember is the command whose first argument is the name of a member.
const removeMember = "members remove"

// masterCommand makes a command over the masters whose URLs are its arguments, or in a file. more
// adds flags, and do gets an open node for each URL.
func (p *program) masterCommand(name, usage, arguments string, more func(*lineFlags, *commandLine),
	do func(context.Context, commandLine) int) *cli.Command {
	flags, line := &lineFlags{}, &commandLine{maxLease: node.DefaultMaxLease, timeout: node.DefaultTimeout}
	if more != nil {
		more(flags, line)
	}
	fileUsage := "read the URLs from `FILE`: arguments show passwords"
	if readsVariable(name) {
		fileUsage += "; without either, from the variable " + urlsVariable
	}
	flags.urlsFile(fileUsage, &line.file)
	line.tls.flags(flags)
	flags.timeouts(0, 0, &line.maxLease, &line.timeout)
	return p.command(name, usage, arguments, flags, exitUsage, func(ctx context.Context, args []string) int {
		if wrong := line.open(name, args); wrong != "" {
			p.misused(wrong)
			return exitUsage
		} else if line.err != nil {
			fmt.Fprintf(p.stderr, "quorumlock: %s: %v\n", name, line.err)
			return exitUsage
		}
		defer closeBy(ctx, line.nodes)
		return do(ctx, *line)
	})
}

// readsVariable reports whether a command takes the URLs from the environment if it is given none.
// Those that change something do not.
func readsVariable(command string) bool { return command == "check" || command == "members show" }

// open opens a node for each URL. It returns what is wrong with the command line; a URL or a file
// that cannot be used is line.err, and no node is open then. It repeats no URL, which may hold a
// password.
func (line *commandLine) open(command string, args []string) (wrong string) {
	urls := args
	if command == removeMember {
		if len(args) == 0 || strings.Contains(args[0], "://") || len(args) == 1 && line.file == "" {
			return command + " needs the name of the member (host:port or that of ?name=, not a URL: see members show), and then " +
				"the URLs of the present list, or -urls-file"
		}
		line.name, urls = args[0], args[1:]
	}
	switch isReader := readsVariable(command); {
	case line.file != "" && len(urls) > 0:
		return command + " takes URLs as arguments or from -urls-file, not from both"
	case line.file != "" || len(urls) == 0 && isReader && os.Getenv(urlsVariable) != "":
		if urls, line.err = readURLs(line.file); line.err != nil {
			return ""
		}
	case len(urls) == 0 && isReader:
		return command + " needs the URL of at least one master: as an argument, by -urls-file, or in " + urlsVariable
	case len(urls) == 0:
		return command + " needs the URL of at least one master: as an argument, or by -urls-file; it does not read " +
			urlsVariable
	}
	urls = line.tls.take(urls)
	options, err := line.tls.options()
	if line.err = err; err != nil {
		return ""
	}
	options = append(options, node.WithMaxLease(line.maxLease), node.WithTimeout(line.timeout), node.WithLogger(silent))
	for i, url := range urls {
		n, err := (*node.Node)(nil), errors.New("flags come before the URLs")
		if !strings.HasPrefix(url, "-") {
			n, err = node.Open(url, options...)
		}
		if err != nil {
			closeAll(line.nodes)
			line.err = fmt.Errorf("URL %d: %w", i+1, err)
			return ""
		}
		line.nodes, line.urls = append(line.nodes, n), append(line.urls, url)
	}
	return ""
}

// each calls ask for all nodes at once, and returns the results in the nodes' order.
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

// closeBy closes the nodes. It does not wait beyond the end of ctx for masters that do not answer: the
// process ends.
func closeBy(ctx context.Context, nodes []*node.Node) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closeAll(nodes)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// reason formats an error without the node's name, which the caller prints.
func reason(err error) string {
	var failed *node.Error
	if errors.As(err, &failed) {
		return plain.Text(strings.TrimPrefix(failed.Error(), plain.Text(fmt.Sprintf("node %s: ", failed.Node))))
	}
	return plain.Text(err.Error())
}
