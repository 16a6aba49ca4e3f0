package integration_test

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// documented is a section of docs/operations.md: the commands of its console blocks.
type documented struct {
	commands []documentedCommand
	// before puts the masters in the state that the section is about. They carry the first command's
	// list, unless before writes markers itself.
	before func(*testing.T, *roster, operator)
	first  []string // the list at the start, if the first command does not tell
	dead   string   // the member that is dead
	code   int      // the exit code of the commands
}

// documentedCommand is a command as it stands in the text.
type documentedCommand struct {
	verb  string   // "members add", "admit -yes -members", ...
	name  string   // of the member to remove
	names []string // of the masters, host:port, in order
}

// The commands in docs/operations.md do what the text says, as they stand there: only the addresses are
// other masters', and the max lease is short.
func TestMembersDocumentedCommands(t *testing.T) {
	t.Parallel()
	o := newOperator(t, listLease)
	sections := map[string]documented{
		"The list of masters": {code: 1, dead: "a:6379", before: func(t *testing.T, r *roster, _ operator) {
			for _, name := range []string{"b:6379", "c:6379"} { // most have forgotten
				do(t, r.masters[name], "FLUSHALL")
			}
		}},
		"Replace a live master": {},
		"Under another name":    {dead: "c:6379"},
		"More masters":          {},
		"One Redis":             {},
		"Go back": {first: []string{"a:6379", "b:6379", "c:6379"}, before: func(t *testing.T, r *roster, o operator) {
			o.does(t, "members add", r.of("d:6379", "a:6379", "b:6379", "c:6379")...)
		}},
		"Other names on purpose": {before: func(t *testing.T, r *roster, _ operator) {
			for name := range r.masters { // the clients are stopped, and had other names
				r.give(t, name, "old-"+name, listLease, []string{"old-a.example:6379", "old-b.example:6379", "old-c.example:6379"})
			}
		}},
	}
	found := consoleBlocks(t, "../docs/operations.md")
	for title := range found {
		if _, known := sections[title]; !known {
			t.Errorf("the section %q has commands that no test runs", title)
		}
	}
	for title, s := range sections {
		s.commands = found[title]
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if len(s.commands) == 0 {
				t.Fatal("the section has no commands")
			}
			s.apply(t, o)
		})
	}
}

// apply runs the commands of a section.
func (s documented) apply(t *testing.T, o operator) {
	t.Helper()
	list := s.firstList()
	var names []string
	for _, c := range s.commands {
		names = append(names, c.names...)
	}
	names = append(names, list...)
	slices.Sort(names)
	r := rosterOf(t, slices.Compact(names)...)
	r.giveAll(t, listLease, list...)
	if s.before != nil {
		s.before(t, r, o)
	}
	if s.dead != "" {
		must(t, r.masters[s.dead].Kill())
	}
	lists, removed := [][]string{list}, ""
	for _, c := range s.commands {
		args := r.of(c.names...)
		if c.name != "" {
			args = slices.Insert(args, 0, c.name)
		}
		r.forgetLockers(t) // the text: when the last old client has stopped
		code, out := o.says(t, c.verb, args...)
		t.Logf("%s %v: exit code %d\n%s", c.verb, c.names, code, out)
		if code != s.code {
			t.Fatalf("%s: exit code %d, want %d", c.verb, code, s.code)
		}
		if c.verb == "members remove" {
			removed = c.name
		}
		right := c.lists(removed)
		lists = append(lists, right...)
		for _, list := range right {
			isAccepted(t, r.of(list...))
		}
		for _, list := range lists {
			if !slices.ContainsFunc(right, func(l []string) bool { return slices.Equal(l, list) }) {
				isRefused(t, r.of(list...))
			}
		}
		if strings.HasSuffix(c.verb, "commit") {
			time.Sleep(listLease) // the text: one max lease later
		}
	}
	if s.dead != "" && s.code == 0 { // the text: alone it makes no majority
		must(t, r.masters[s.dead].Start())
		isRefused(t, r.of(lists[0]...))
		isAccepted(t, r.of(lists[len(lists)-1]...))
	}
}

// firstList is the list at the start.
func (s documented) firstList() []string {
	first := s.commands[0]
	switch {
	case s.first != nil:
		return s.first
	case first.verb == "members add":
		return sorted(first.names[1:])
	default:
		return sorted(first.names)
	}
}

// lists returns the lists whose clients are accepted after the command. A commit is given the master that
// was removed last, too, if it runs.
func (c documentedCommand) lists(removed string) [][]string {
	all := sorted(c.names)
	switch c.verb {
	case "members commit":
		return [][]string{slices.DeleteFunc(all, func(name string) bool { return name == removed })}
	case "members add":
		return [][]string{sorted(c.names[1:]), all}
	case "members remove":
		return [][]string{all, slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == c.name })}
	case "members abort": // it is what add announced: the last one goes
		return [][]string{all[:len(all)-1]}
	default:
		return [][]string{all}
	}
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// consoleBlocks returns the commands in the console blocks of a document, by the nearest heading.
func consoleBlocks(t *testing.T, path string) map[string][]documentedCommand {
	t.Helper()
	found := map[string][]documentedCommand{}
	heading, block := "", false
	for line := range strings.SplitSeq(testkit.Read(t, path), "\n") {
		switch {
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
			_, heading, _ = strings.Cut(line, " ")
		case strings.HasPrefix(line, "```"):
			block = line == "```console"
		case block:
			command, is := strings.CutPrefix(line, "$ quorumlock ")
			if !is {
				t.Fatalf("%s: no command: %q", path, line)
			}
			found[heading] = append(found[heading], parseDocumented(t, command))
		}
	}
	return found
}

func parseDocumented(t *testing.T, line string) (c documentedCommand) {
	t.Helper()
	for _, word := range strings.Fields(line) {
		u, err := url.Parse(word)
		switch {
		case err == nil && u.Scheme == "redis":
			if u.Query().Has("name") || u.Path != "" {
				t.Fatalf("%s: the test appends a name to redis://host:port only", line)
			}
			c.names = append(c.names, u.Host)
		case strings.Contains(word, ":"):
			_, _, err := net.SplitHostPort(word)
			must(t, err)
			c.name = word
		default:
			c.verb = strings.TrimSpace(c.verb + " " + word)
		}
	}
	return c
}
