package scene

import (
	"cmp"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// line is a command with its words: those without a value, and options.
type line struct {
	t       *testing.T
	cmd     string
	words   []string
	options map[string][]string
	order   []string  // of the options
	known   *sync.Map // the options that the command has asked for
}

// flags are words that are options without a value.
var flags = map[string]bool{"read": true, "detached": true, "background": true, "stops": true, "fails": true, "ended": true, "hooks": true, "log": true, "quarantine": true, "unfounded": true}

// linesOf are the lines of a directive: its first one, and its input.
func linesOf(t *testing.T, d *datadriven.TestData) []line {
	t.Helper()
	lines := []line{lineOf(d.Cmd, d.CmdArgs)}
	for text := range strings.Lines(d.Input) {
		if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		cmd, args, err := datadriven.ParseLine(text)
		testkit.Must(t, err)
		lines = append(lines, lineOf(cmd, args))
	}
	return lines
}

func lineOf(cmd string, args []datadriven.CmdArg) line {
	l := line{cmd: cmd, options: map[string][]string{}, known: new(sync.Map)}
	for _, arg := range args {
		if len(arg.Vals) == 0 && !flags[arg.Key] {
			l.words = append(l.words, read(arg.Key))
			continue
		}
		for _, value := range arg.Vals {
			l.options[arg.Key] = append(l.options[arg.Key], read(value))
		}
		if arg.Vals == nil {
			l.options[arg.Key] = nil
		}
		l.order = append(l.order, arg.Key)
	}
	return l
}

var many = regexp.MustCompile(`<(.)\*(\d+)>`)

// read returns what a word means: text in quotes is as in Go, and <x*100> is x as often as that.
func read(word string) string {
	if text, err := strconv.Unquote(word); err == nil {
		word = text
	}
	return many.ReplaceAllStringFunc(word, func(s string) string {
		of := many.FindStringSubmatch(s)
		n, _ := strconv.Atoi(of[2])
		return strings.Repeat(of[1], n)
	})
}

func (l line) has(option string) bool {
	l.knows(option)
	_, isThere := l.options[option]
	return isThere
}

// knows names options that the command asks for when the line is over.
func (l line) knows(options ...string) {
	for _, option := range options {
		l.known.Store(option, true)
	}
}

// unknown returns the options that the command does not know.
func (l line) unknown() []string {
	return slices.DeleteFunc(slices.Clone(l.order), func(option string) bool {
		_, isKnown := l.known.Load(option)
		return isKnown
	})
}

// text is an option's value, or "".
func (l line) text(option string) string {
	if values := l.values(option); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (l line) values(option string) []string {
	l.knows(option)
	return l.options[option]
}

// name is what a call and its lock are called, without as=.
func (l line) name() string {
	name := strings.Join(l.words, " ")
	if l.has("sem") {
		name += " " + l.text("sem")
	}
	return name
}

func (l line) as() string { return cmp.Or(l.text("as"), l.name()) }

func (l line) number(word int) int {
	n, err := strconv.Atoi(l.words[word])
	testkit.Must(l.t, err)
	return n
}

// integers are the values of an option.
func (l line) integers(option string) (all []int) {
	for _, value := range l.values(option) {
		n, err := strconv.Atoi(value)
		testkit.Must(l.t, err)
		all = append(all, n)
	}
	return all
}

func (l line) float(option string, preset float64) float64 {
	if !l.has(option) {
		return preset
	}
	x, err := strconv.ParseFloat(l.text(option), 64)
	testkit.Must(l.t, err)
	return x
}

func (l line) duration(option string, value int) time.Duration {
	d, err := time.ParseDuration(l.values(option)[value])
	testkit.Must(l.t, err)
	return d
}

// settings are the options of a locker, by their names in a scene.
var settings = map[string]func(line) quorum.Option{
	"lease":     func(l line) quorum.Option { return quorum.WithLease(l.duration("lease", 0)) },
	"fixed":     func(l line) quorum.Option { return quorum.WithFixedLease(l.duration("fixed", 0)) },
	"maxhold":   func(l line) quorum.Option { return quorum.WithMaxHold(l.duration("maxhold", 0)) },
	"minhold":   func(l line) quorum.Option { return quorum.WithMinHold(l.duration("minhold", 0)) },
	"stop":      func(l line) quorum.Option { return quorum.WithStopBefore(l.duration("stop", 0)) },
	"wait":      func(l line) quorum.Option { return quorum.WithWait(l.duration("wait", 0)) },
	"drift":     func(l line) quorum.Option { return quorum.WithDrift(l.float("drift", 0)) },
	"unfounded": func(line) quorum.Option { return quorum.WithoutFounding() },
	"retry": func(l line) quorum.Option {
		return quorum.WithRetry(l.duration("retry", 0), l.duration("retry", 1))
	},
}

// settings returns what the line sets.
func (l line) settings() (opts []quorum.Option) {
	for _, option := range l.order {
		if set, ok := settings[option]; ok && l.has(option) {
			opts = append(opts, set(l))
		}
	}
	return opts
}

// nodeSettings are those of the nodes: they have no quarantine unless the line wants it.
func (l line) nodeSettings(log *slog.Logger) []node.Option {
	opts := []node.Option{node.WithTimeout(time.Second), node.WithLogger(log)}
	if l.has("conns") {
		opts = append(opts, node.WithConns(l.integers("conns")[0]))
	}
	if !l.has("quarantine") {
		opts = append(opts, node.WithoutQuarantine())
	}
	return opts
}
