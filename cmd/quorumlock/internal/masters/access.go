// Package masters gives commands their masters: by URLs from arguments, a file or the environment, with TLS, and
// one call to all of them at once. It also is the commands about masters alone: check finds what makes them unfit
// for locks, admit ends their quarantine.
package masters

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
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

// URLsVariable is the variable that has the masters' URLs.
const URLsVariable = "QUORUMLOCK_URLS"

// words are separated by blanks or commas. A comma before the path of a URL of Sentinel separates its hosts.
var words = regexp.MustCompile(`(?i)(?:redis|valkey)s?\+sentinel://[^/\s]*[^,\s]*|[^,\s]+`)

var comments = regexp.MustCompile(`(?m)^[\s\pZ]*#.*`)

func readURLs(file string) ([]string, error) {
	text, from := os.Getenv(URLsVariable), URLsVariable
	if file != "" {
		content, err := os.ReadFile(file)
		if failed, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(file, "@") {
			err = fmt.Errorf("-urls-file: %w", failed.Err) // without the path, which may be a URL's end, with a password
		}
		if err != nil {
			return nil, err
		}
		text, from = comments.ReplaceAllString(strings.TrimPrefix(string(content), "\ufeff"), ""), file
	}
	urls := words.FindAllString(text, -1)
	if len(urls) == 0 {
		return nil, fmt.Errorf("no masters in %s: set the variable %s, or use -urls-file", from, URLsVariable)
	}
	return urls, nil
}

// CheckLockName returns why an argument is not a lock's name, or nil.
func CheckLockName(name string) error {
	scheme, _, isURL := strings.Cut(strings.ToLower(name), "://")
	switch {
	case name == "":
		return errors.New("a name is empty")
	case isURL && (strings.HasPrefix(scheme, "redis") || strings.HasPrefix(scheme, "valkey") || scheme == "unix"):
		return errors.New("the masters' URLs do not belong on the command line, which shows passwords: see " +
			URLsVariable + " and -urls-file")
	case scripts.Reserved(name) != "":
		return fmt.Errorf("the name %.64q begins with %s, which is for the library's own keys", name, scripts.Reserved(name))
	}
	return nil
}

// Command is a command over the masters whose URLs are its arguments, or in a file.
type Command struct {
	Name, Usage, Arguments, Help string
	// Reads: without URLs it takes them from the environment. A command that changes something does not.
	Reads bool
	// NamesMember: the first argument is the name of a member.
	NamesMember bool
	// Unsealed: it shows what masters say while replicas are missing, too.
	Unsealed bool
	Define   func(*cli.Flags) Action
}

// Action is a [cli.Action] on masters.
type Action func(ctx context.Context, p *cli.Program, line Line) int

// Line is the command line of a [Command], with an open node for each URL.
type Line struct {
	Nodes  []*node.Node
	Member string // if it names one

	urls []string // of the nodes
}

// Row returns the command's row of the table.
func (c Command) Row() cli.Command {
	return cli.Command{Name: c.Name, Usage: c.Usage, Arguments: c.Arguments, Help: c.Help,
		Define: func(flags *cli.Flags) cli.Action {
			do, access := c.Define(flags), &Access{argument: true, Unsealed: c.Unsealed}
			fileUsage := "read the URLs from `FILE`: arguments show passwords"
			if c.Reads {
				fileUsage += "; without either, from the variable " + URLsVariable
			}
			access.flags(flags, fileUsage, 0, 0)
			return func(ctx context.Context, p *cli.Program, args []string) int {
				if wrong := c.wrong(access.file, args); wrong != "" {
					return p.Misused(p.Command + " " + wrong)
				}
				line, err := Line{}, error(nil)
				if c.NamesMember {
					line.Member, args = args[0], args[1:]
				}
				if len(args) == 0 {
					line.Nodes, line.urls, err = access.Open()
				} else {
					line.Nodes, line.urls, err = access.open(args)
				}
				if err != nil {
					fmt.Fprintf(p.Stderr, "quorumlock: %s: %v\n", p.Command, err)
					return cli.ExitUsage
				}
				defer CloseBy(ctx, line.Nodes)
				return do(ctx, p, line)
			}
		}}
}

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
