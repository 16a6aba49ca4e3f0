package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// refusalLease is the max lease of the deployments on which the command is used wrongly.
const refusalLease = 20 * time.Second

// What cannot be done is refused in a sentence that says why, and nothing is written.
func TestMembersCommandRefuses(t *testing.T) {
	t.Parallel()
	o := newOperator(t, refusalLease)
	plain := func(t *testing.T, r *roster) { r.giveAll(t, refusalLease, abc...) }
	announced := func(t *testing.T, r *roster) {
		for _, name := range abcd {
			r.give(t, name, refusalLease, abc, abcd)
		}
	}
	for _, c := range []struct {
		how    string
		before func(*testing.T, *roster)
		dead   string
		verb   string
		args   string // names of masters to be given as URLs; =x is the word x
		code   int
		says   []string
	}{
		{"no step", plain, "", "members", "", 2, []string{"show, add, remove, commit, abort"}},
		{"an unknown step", plain, "", "members move", "a b c", 2, []string{"show, add, remove, commit, abort"}},
		{"add: no URL", plain, "", "members add", "", 2, []string{"needs the URL of at least one master"}},
		{"remove: no URL", plain, "", "members remove", "", 2, []string{"needs"}},
		{"remove: a name only", plain, "", "members remove", "=c", 2,
			[]string{"needs the name of the member", "and then the URLs"}},
		{"remove: a URL for the name", plain, "", "members remove", "c a b c", 2,
			[]string{"needs the name of the member", "not a URL", "and then the URLs"}},
		{"add: the new one last", plain, "", "members add", "a b c d", 1, []string{"d is none of these, and the URL of the new master comes first"}},
		{"commit: no URL", plain, "", "members commit", "", 2, []string{"needs the URL of at least one master"}},
		{"abort: no URL", plain, "", "members abort", "", 2, []string{"needs the URL of at least one master"}},
		{"an unknown flag", plain, "", "members add -yes", "d a b c", 2, []string{"unknown flag"}},
		{"add: one URL", plain, "", "members add", "d", 1, []string{"fewer than two masters"}},
		{"remove: one URL", plain, "", "members remove", "=c c", 1, []string{"fewer than two masters"}},
		{"commit: one URL", plain, "", "members commit", "a", 1, []string{"no change to {a} is announced"}},
		{"add: two equal names", plain, "", "members add", "d a b b c", 1, []string{"two URLs have the name b"}},
		{"add: a member", plain, "", "members add", "c a b c", 1, []string{"two URLs have the name c"}},
		{"remove: no member", plain, "", "members remove", "=x a b c", 1, []string{"x is no member of {a, b, c}"}},
		{"add: the present list lacks a member", plain, "", "members add", "d a b", 1,
			[]string{"has the members {a, b, c}", "not {a, b}"}},
		{"add: the present list has one more", plain, "", "members add", "d a b c e", 1,
			[]string{"has the members {a, b, c}", "not {a, b, c, e}"}},
		{"remove: the present list has one more", plain, "", "members remove", "=c a b c d", 1,
			[]string{"has the members {a, b, c}", "not {a, b, c, d}"}},
		{"remove: down to one", func(t *testing.T, r *roster) { r.giveAll(t, refusalLease, "a", "b") }, "",
			"members remove", "=b a b", 1, []string{"fewer than two masters"}},
		{"add: another change is under way", announced, "", "members add", "e a b c", 1,
			[]string{"a change to {a, b, c, d} is under way", "which comes first: members commit with the URLs of {a, b, c, d}, or members abort with those of {a, b, c, d}"}},
		{"remove: another change is under way", announced, "", "members remove", "=c a b c", 1,
			[]string{"a change to {a, b, c, d} is under way"}},
		{"commit: not announced", plain, "", "members commit", "a b c d", 1,
			[]string{"no change to {a, b, c, d} is announced"}},
		{"commit: announced on some", func(t *testing.T, r *roster) {
			plain(t, r)
			r.give(t, "a", refusalLease, abc, abcd)
			r.give(t, "d", refusalLease, abc, abcd)
		}, "", "members commit", "a b c d", 1, []string{"is on 2 of its masters, and must be on 3", "repeat members add or remove"}},
		{"commit: a member lacks", announced, "", "members commit", "a b d", 1,
			[]string{"a change to {a, b, c, d} is under way", "members commit with the URLs of {a, b, c, d}"}},
		{"commit: the new member lacks", announced, "", "members commit", "a b c", 1,
			[]string{"a change to {a, b, c, d} is under way", "members commit with the URLs of {a, b, c, d}"}},
		{"abort: committed on some", func(t *testing.T, r *roster) {
			announced(t, r)
			r.give(t, "b", refusalLease, abcd, nil)
		}, "", "members abort", "a b c d", 1, []string{"is committed on b already: members commit with the URLs of {a, b, c, d} gives all of them that list"}},
		{"add: a member is dead", plain, "b", "members add", "d a b c", 1,
			[]string{"b does not answer", "(a dead one is removed first)"}},
		{"add: the new one is dead", plain, "d", "members add", "d a b c", 1, []string{"d does not answer"}},
		{"remove: another one is dead", plain, "b", "members remove", "=c a b c", 1, []string{"b does not answer"}},
		{"commit: two are dead", func(t *testing.T, r *roster) {
			announced(t, r)
			do(t, r.masters["c"], "FLUSHALL")
		}, "b", "members commit", "a b c d", 1, []string{"is on 2 of its masters, and must be on 3", "start b and repeat this command"}},
		{"add: another max lease", plain, "", "members add -max-lease 1s", "d a b c", 1,
			[]string{"the deployment's is 20s, this client's 1s: give the deployment's with -max-lease"}},
		{"commit: another max lease", announced, "", "members commit -max-lease 1s", "a b c d", 1,
			[]string{"the deployment's is 20s, this client's 1s: give the deployment's with -max-lease"}},
		{"abort: another max lease", announced, "", "members abort -max-lease 1s", "a b c d", 1,
			[]string{"the deployment's is 20s, this client's 1s: give the deployment's with -max-lease"}},
		{"add: a member is blank", func(t *testing.T, r *roster) {
			plain(t, r)
			do(t, r.masters["b"], "FLUSHALL")
		}, "", "members add", "d a b c", 1, []string{"b is blank", "lock any name"}},
		{"add: a master of another list", func(t *testing.T, r *roster) {
			plain(t, r)
			r.give(t, "d", refusalLease, []string{"d", "x", "y"}, nil)
		}, "", "members add", "d a b c", 1, []string{"d is already the member d of {d, x, y}", "wiped"}},
		{"add: a master with the list before", func(t *testing.T, r *roster) {
			r.giveAll(t, refusalLease, abc...)
			r.give(t, "d", refusalLease, abcd, nil)
		}, "", "members add", "d a b c", 1, []string{"d is already the member d of {a, b, c, d}", "wiped"}},
		{"add: soon after a change", func(t *testing.T, r *roster) {
			for _, name := range abc {
				r.giveAs(t, name, name, refusalLease, abc)
				m, _ := r.marker(t, name)
				m.Change = time.Duration(time.Now().Add(refusalLease/2).UnixMilli()) * time.Millisecond
				do(t, r.masters[name], "SET", scripts.MarkerKey, m.String())
			}
		}, "", "members add", "d a b c", 1,
			[]string{"less than one max lease ago: the next change waits for another"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			r := rosterOf(t, "a", "b", "c", "d", "e")
			c.before(t, r)
			before := r.markers(t)
			var args []string
			for _, word := range strings.Fields(c.args) {
				if name, is := strings.CutPrefix(word, "="); is {
					args = append(args, name)
				} else {
					args = append(args, r.url(word))
				}
			}
			if c.dead != "" {
				must(t, r.masters[c.dead].Kill())
				before = r.markers(t)
			}
			code, out := o.says(t, c.verb, args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, part := range c.says {
				if !strings.Contains(out, part) {
					t.Errorf("it does not say %q", part)
				}
			}
			if after := r.markers(t); after != before {
				t.Errorf("the markers changed from%s\nto%s", before, after)
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("quorumlock %s %s:\n%s", c.verb, c.args, strings.Join(slices.DeleteFunc(strings.Split(out, "\n"),
					func(line string) bool { return strings.HasPrefix(line, " ") && code == 2 }), "\n"))
			}
		})
	}
}
