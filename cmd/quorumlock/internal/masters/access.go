// Package masters gives commands their masters: by URLs from arguments, a file or the environment, with TLS, and
// one call to all of them at once. It also is the commands about masters alone: check finds what makes them unfit
// for locks, admit ends their quarantine.
package masters

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Silent is the logger of the command, which prints everything itself.
var Silent = slog.New(slog.DiscardHandler)

// Shortest is the shortest lease and max hold that package quorum takes.
const Shortest = 10 * time.Millisecond

// Access is how a command reaches the masters, by its flags.
type Access struct {
	MaxLease, Timeout time.Duration
	Unsealed          bool // the command shows what masters say while replicas are missing, too

	file     string // that has the URLs; empty for none
	tls      tlsFiles
	argument bool // the URLs may be arguments
}

// Flags adds the flags of a command that takes the URLs from a file or the environment.
func (a *Access) Flags(flags *cli.Flags) {
	a.flags(flags, "read the masters' URLs from `FILE`, not from the variable "+URLsVariable, Shortest, time.Millisecond)
}

func (a *Access) flags(flags *cli.Flags, fileUsage string, leastLease, leastTimeout time.Duration) {
	a.MaxLease, a.Timeout = node.DefaultMaxLease, node.DefaultTimeout
	flags.Path("urls-file", fileUsage, &a.file)
	a.tls.flags(flags)
	flags.Duration("max-lease", "the max lease of all the deployment's clients is `D` (30s)", leastLease, &a.MaxLease)
	flags.Duration("timeout", "wait for a reply for `D` at most (500ms), and for a connection for 5s at least", leastTimeout, &a.Timeout)
}

// Open opens the masters of the file, or else of the environment, and returns their URLs, too. The caller
// closes them. The error has its exit code.
func (a *Access) Open() (nodes []*node.Node, urls []string, err error) {
	if urls, err = readURLs(a.file); err == nil {
		nodes, urls, err = a.open(urls)
	}
	if err != nil {
		return nil, nil, cli.ExitWith(cli.ExitConfiguration, err)
	}
	return nodes, urls, nil
}

// open opens a node for each URL of a list that may also have the paths of TLS files. The error repeats no
// URL, which may hold a password.
func (a *Access) open(list []string) (nodes []*node.Node, urls []string, err error) {
	urls = a.tls.take(list)
	secure, err := a.tls.options()
	if err != nil {
		return nil, nil, err
	}
	options := append(a.Options(), secure...)
	for i, url := range urls {
		n, err := (*node.Node)(nil), errors.New("flags come before the URLs")
		if !a.argument || !strings.HasPrefix(url, "-") {
			n, err = node.Open(url, options...)
		}
		if err != nil {
			CloseAll(nodes)
			return nil, nil, fmt.Errorf("URL %d: %w", i+1, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, urls, nil
}

// Options are the options of the nodes, but for TLS.
func (a *Access) Options() []node.Option {
	return []node.Option{node.WithMaxLease(a.MaxLease), node.WithTimeout(a.Timeout), node.WithLogger(Silent),
		inside.Option[node.Option](func(s *inside.Settings) { s.Unsealed = a.Unsealed })}
}

var comments = regexp.MustCompile(`(?m)^[\s\pZ]*#.*`)

// wrong says what is wrong with the arguments, next to that file of URLs; nothing if they can be used.
func (c Command) wrong(file string, args []string) string {
	if c.NamesMember {
		if len(args) == 0 || strings.Contains(args[0], "://") || len(args) == 1 && file == "" {
			return "needs the name of the member (host:port or ?name=, not a URL: see members show), and then " +
				"the URLs of the present list, or -urls-file"
		}
		args = args[1:]
	}
	const needsURL = "needs the URL of at least one master: as an argument, "
	switch {
	case file != "" && len(args) > 0:
		return "takes URLs as arguments or from -urls-file, not from both"
	case file != "" || len(args) > 0 || c.Reads && os.Getenv(URLsVariable) != "":
		return ""
	case c.Reads:
		return needsURL + "by -urls-file, or in " + URLsVariable
	}
	return needsURL + "or by -urls-file; it does not read " + URLsVariable
}
