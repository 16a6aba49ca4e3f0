package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// interruption is a command that changes the list of masters, and the state in which it is called.
type interruption struct {
	verb     string
	args     []string // names of masters, and words
	from, to []string // the lists
	begin    func(*testing.T, *roster)
	always   []string // the list whose clients are accepted all the time
	done     func(m scripts.Marker) bool
	on       []string // the masters on which done holds at the end
}

// interruptedLease is the max lease of the deployments whose changes are interrupted. A busy machine must get a command from its
// looks, by way of all token counters, to its last mark in half of it.
const interruptedLease = 6 * time.Second

var (
	abc  = []string{"a", "b", "c"}
	abcd = []string{"a", "b", "c", "d"}
)

var interruptions = map[string]interruption{
	"add": {
		verb: "members add", args: []string{"d", "a", "b", "c"}, from: abc, to: abcd, always: abc, on: abcd,
		begin: func(t *testing.T, r *roster) {
			r.giveAll(t, interruptedLease, abc...)
			do(t, r.masters["d"], "FLUSHALL")
		},
		done: func(m scripts.Marker) bool {
			return !m.Claimed && m.Members.Equal(scripts.NewList(abc...)) && m.Next.Equal(scripts.NewList(abcd...))
		},
	},
	"remove": {
		verb: "members remove", args: []string{"=d", "a", "b", "c", "d"}, from: abcd, to: abc, always: abcd, on: abc,
		begin: func(t *testing.T, r *roster) { r.giveAll(t, interruptedLease, abcd...) },
		done:  func(m scripts.Marker) bool { return m.Next.Equal(scripts.NewList(abc...)) },
	},
	"commit of add": {
		verb: "members commit -yes", args: abcd, from: abc, to: abcd, always: abcd, on: abcd,
		begin: func(t *testing.T, r *roster) {
			for _, name := range abcd {
				r.give(t, name, interruptedLease, abc, abcd)
			}
		},
		done: isCommitted(abcd),
	},
	"commit of remove": {
		verb: "members commit -yes", args: abc, from: abcd, to: abc, always: abc, on: abc,
		begin: func(t *testing.T, r *roster) {
			for _, name := range abc {
				r.give(t, name, interruptedLease, abcd, abc)
			}
			r.give(t, "d", interruptedLease, abcd, nil)
		},
		done: isCommitted(abc),
	},
	"abort": {
		verb: "members abort", args: abcd, from: abc, to: abcd, always: abc, on: abcd,
		begin: func(t *testing.T, r *roster) {
			for _, name := range abcd {
				r.give(t, name, interruptedLease, abc, abcd)
			}
		},
		done: func(m scripts.Marker) bool { return m.Generation == 1 && m.Next.Len() == 0 && m.Change > 0 },
	},
}

func isCommitted(to []string) func(scripts.Marker) bool {
	return func(m scripts.Marker) bool {
		return m.Members.Equal(scripts.NewList(to...)) && m.Next.Len() == 0 && m.Generation == 2 && m.Change > 0
	}
}

// A command that changes the list is killed at each mark that it writes, before the master carries
// it out and after. What it leaves behind accepts one list or both, and never two whose
// majorities do not meet. The same command run again continues.
func TestMembersCommandsKilledAtEveryMark(t *testing.T) {
	t.Parallel()
	o := newOperator(t, interruptedLease)
	for name, in := range interruptions {
		for _, after := range []bool{false, true} {
			when := map[bool]string{false: "before", true: "after"}[after]
			t.Run(name+", "+when+" the mark", func(t *testing.T) {
				t.Parallel()
				marks := &trap{text: sha(t, "mark")}
				r := rosterOf(t, abcd...).withGates(t, marks)
				at := 1
				for ; ; at++ {
					in.begin(t, r)
					if code, out, killed := in.killed(t, o, r, marks, at, after); !killed {
						if code != 0 {
							t.Fatalf("not killed, and exit code %d: %s", code, out)
						}
						in.isDone(t, r)
						break
					}
					what := fmt.Sprintf("killed at mark %d", at)
					before := r.markers(t)
					in.isSafe(t, r, what)
					if t.Failed() {
						t.Fatalf("%s: left behind%s\nand then%s", what, before, r.markers(t))
					}
					marks.set(0, false, nil)
					o.does(t, in.verb, in.arguments(r)...)
					in.isDone(t, r)
					in.isSafe(t, r, what+" and repeated")
					if t.Failed() {
						t.Fatalf("%s:%s", what, r.markers(t))
					}
				}
				t.Logf("killed at each of %d marks", at-1)
				if at-1 < len(in.to) && at-1 < len(in.from) {
					t.Errorf("only %d marks: the test shows nothing", at-1)
				}
			})
		}
	}
}

// arguments puts URLs in place of names; =d is the name d itself.
func (in interruption) arguments(r *roster) (args []string) {
	for _, arg := range in.args {
		if name, is := strings.CutPrefix(arg, "="); is {
			args = append(args, name)
		} else {
			args = append(args, r.url(arg))
		}
	}
	return args
}

// killed runs the command, and kills it at a mark. It returns false when there was no such mark.
func (in interruption) killed(
	t *testing.T, o operator, r *roster, marks *trap, at int, after bool,
) (code int, out string, killed bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * patience); ; {
		code, out, killed = in.killedOnce(t, o, r, marks, at, after)
		if killed || !strings.Contains(out, tooSlow) || time.Now().After(deadline) {
			return code, out, killed
		}
		in.begin(t, r)
	}
}

func (in interruption) killedOnce(
	t *testing.T, o operator, r *roster, marks *trap, at int, after bool,
) (code int, out string, killed bool) {
	t.Helper()
	cmd := o.command(t.Context(), in.verb, in.arguments(r)...)
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	sprung := make(chan struct{})
	marks.set(at, after, func() { close(sprung) })
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-sprung:
		must(t, cmd.Process.Kill())
		<-ended
		for name, g := range r.gates {
			eventually(t, patience, g.isIdle, "what was sent to "+name+" is carried out")
		}
		return 0, "", true
	case <-ended:
		return cmd.ProcessState.ExitCode(), printed.String(), false
	}
}

// isDone checks the markers that the command leaves in the end.
func (in interruption) isDone(t *testing.T, r *roster) {
	t.Helper()
	for _, name := range in.on {
		if m, _ := r.marker(t, name); !in.done(m) {
			t.Errorf("not done on %s: %s", name, r.markers(t))
		}
	}
}

// isSafe checks whom the masters accept, by their markers and by clients that lock.
func (in interruption) isSafe(t *testing.T, r *roster, what string) {
	t.Helper()
	carriers := r.carriers(t)
	for one, by := range carriers {
		for other, byOther := range carriers {
			if canBothHold(by, byOther) {
				t.Errorf("%s: {%s} and {%s} could both hold:%s", what, one, other, r.markers(t))
			}
		}
	}
	has := func(list []string) bool { return carriers[strings.Join(list, " ")].hasQuorum() }
	if !has(in.always) {
		t.Errorf("%s: clients with %v are not accepted:%s", what, in.always, r.markers(t))
	}
	for _, list := range [][]string{in.from, in.to} {
		if has(list) {
			isAccepted(t, redlock.Open, interruptedLease, r.of(list...))
		} else {
			isRefused(t, redlock.Open, interruptedLease, r.of(list...))
		}
	}
	if has(in.from) && has(in.to) {
		must(t, tryInTime(t, redlock.Open, interruptedLease, r.of(in.from...), "shared", func(held *quorum.Lock) {
			if err := tryOnce(t, redlock.Open, interruptedLease, r.of(in.to...), "shared", nil); held.Valid() {
				wantErr(t, err, quorum.ErrHeld)
			}
		}))
	}
}

// carriedList is a list of masters, and those among them that accept its clients.
type carriedList struct {
	need int
	by   map[string]bool
}

func (c carriedList) hasQuorum() bool { return c.need > 0 && len(c.by) >= c.need }

// carriers returns each list that a marker has, by its names.
func (r *roster) carriers(t *testing.T) map[string]carriedList {
	t.Helper()
	all := map[string]carriedList{}
	for _, name := range r.names() {
		m, found := r.marker(t, name)
		if !found || m.Claimed || m.Run != r.run(t, name) {
			continue
		}
		for _, list := range []*scripts.List{m.Members, m.Next} {
			if list.Len() == 0 || !list.Has(m.Member) {
				continue
			}
			text := strings.Join(list.Names(), " ")
			if all[text].by == nil {
				all[text] = carriedList{list.Len()/2 + 1, map[string]bool{}}
			}
			all[text].by[m.Member] = true
		}
	}
	return all
}

// canBothHold reports whether two lists have quorums without a common master among their carriers.
func canBothHold(one, other carriedList) bool {
	union := map[string]bool{}
	for name := range one.by {
		union[name] = true
	}
	for name := range other.by {
		union[name] = true
	}
	return one.hasQuorum() && other.hasQuorum() && len(union) >= one.need+other.need
}
