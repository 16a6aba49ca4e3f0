//go:build unix

package chaos

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// noRefusal is the kind of a control: the complete library, on masters that go on to accept their
// first list. The harness overwrites their markers in place of the operator's commands. A marker has
// room for two lists, so clients with wrong lists are refused as ever.
const noRefusal = "no-refusal"

// markDelay is of the operator's requests to master 2. It must leave time for the marks within half a
// max lease. -chaos.stretch multiplies it.
var markDelay = 40 * time.Millisecond

// operator changes the members by the command. It is killed at each step, and then repeats it. Lists
// are places of masters, of which 1 and 2 are in all lists.
type operator struct {
	*run
	first   []int
	way     *paths
	killed  int
	halfway int // killed with a mark on master 1, and none on master 2
}

// announces announces a change. Between the kill and the repetition it calls meanwhile.
func (o *operator) announces(from, to []int, meanwhile func()) {
	o.t.Helper()
	if len(to) > len(from) {
		added := to[len(to)-1:]
		o.step(meanwhile, "add", append(o.way.urls(added...), o.way.urls(from...)...)...)
	} else {
		removed := slices.IndexFunc(from, func(i int) bool { return !slices.Contains(to, i) })
		o.step(meanwhile, "remove", append([]string{o.Names[from[removed]]}, o.way.urls(from...)...)...)
	}
	if o.kind == noRefusal {
		o.overwrite(o.first, to)
	}
}

func (o *operator) commits(to []int, meanwhile func()) {
	o.t.Helper()
	o.step(meanwhile, "commit", o.way.urls(to...)...)
}

// step makes a step. The controls do without: redsync's masters have no list, and the harness
// overwrites the markers of the others.
func (o *operator) step(meanwhile func(), verb string, args ...string) {
	o.t.Helper()
	if !o.ours() {
		meanwhile()
		return
	}
	if verb == "commit" {
		args = append([]string{"-yes"}, args...) // stale clients go on with the first list
	}
	before, late := o.marker(0), time.Now().Add(soon)
	for said := ""; o.marker(0) == before; { // refused: the last change is not one max lease ago
		o.need(time.Now().Before(late), "members %s writes a mark in time: %s", verb, said)
		said = o.kills(verb, args)
	}
	meanwhile()
	for late := time.Now().Add(soon); ; o.let(20 * time.Millisecond) {
		again := o.members(verb, operatorTimeout, args...)
		if <-again.ended; again.err == nil {
			return
		}
		o.need(time.Now().Before(late), "members %s continues when run again: %v: %s", verb, again.err, &again.said)
	}
}

// members is a `quorumlock members` that was started.
type members struct {
	verb  string
	cmd   *exec.Cmd
	said  bytes.Buffer // complete when it has ended
	ended chan struct{}
	err   error // of its end
}

func (r *run) members(verb string, timeout time.Duration, args ...string) *members {
	path, err := program(command)
	r.must(err)
	flags := []string{"members", verb, "-max-lease", r.lease.String(), "-timeout", timeout.String()}
	m := &members{verb: verb, cmd: exec.Command(path, append(flags, args...)...), ended: make(chan struct{})}
	m.cmd.Stdout, m.cmd.Stderr = &m.said, &m.said
	r.must(m.cmd.Start())
	go func() {
		defer close(m.ended)
		m.err = m.cmd.Wait()
	}()
	return m
}

func (m *members) hasEnded() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func (m *members) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
}

// kills runs the command until it has put a mark on master 1. The mark for master 2 is on its way
// then, and gets lost. It returns what the command said.
func (o *operator) kills(verb string, args []string) (said string) {
	o.way.relays()[1].DelayRequests(markDelay, 0)
	first, second := o.marker(0), o.marker(1)
	m := o.members(verb, operatorTimeout, args...)
	defer m.kill()
	for !m.hasEnded() && o.marker(0) == first {
		o.let(2 * time.Millisecond)
	}
	m.kill()
	o.way.relays()[1].Turn(o.Servers[1].Addr()) // this cuts the connections: what is on its way is lost
	o.way.relays()[1].Heal()
	if o.marker(0) != first {
		o.happened("quorumlock members killed", "at %s", verb)
		o.killed++
		if o.marker(1) == second {
			o.halfway++
		}
	}
	return m.said.String()
}

func (o *operator) marker(i int) string {
	text, err := redis.String(o.Servers[i].Do("GET", scripts.MarkerKey))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		o.must(err)
	}
	return text
}

func (o *operator) overwrite(list, other []int) {
	for i, s := range o.Servers {
		if !slices.Contains(list, i) && !slices.Contains(other, i) {
			continue
		}
		run := testkit.Info(o.t, s, "server", "run_id")
		m := scripts.Marker{Process: scripts.Process{Run: run, MaxLease: o.lease, Member: o.Names[i]},
			Generation: 1, Members: o.membersOf(list), Next: o.membersOf(other)}
		o.must(o.do(i, "SET", scripts.MarkerKey, m.String()))
	}
}

func (o *operator) membersOf(places []int) *scripts.List {
	if len(places) == 0 {
		return scripts.NewList()
	}
	return scripts.NewList(pick(o.Names, places)...)
}
