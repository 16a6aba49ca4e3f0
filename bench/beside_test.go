package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/revision"
	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// revisionBeside is the oldest tree that docs/compatibility.md lets run beside this one.
const revisionBeside = "ce8f1c8"

// Processes of an earlier version and of this one lock the same names on the same masters, as in a
// rolling deploy, and as in its way back.
func TestAnEarlierVersionRunsBeside(t *testing.T) {
	dir := t.TempDir()
	old, err := revision.Build(t.Context(), "beside", revisionBeside, dir)
	if errors.Is(err, revision.ErrNoHistory) {
		t.Skipf("SKIPPED, needs the repository's history: %v", err)
	}
	must(t, err)
	this, err := revision.BuildThis(t.Context(), "beside", dir)
	must(t, err)
	for name, programs := range map[string][]string{
		"the old founds": {old, this, old, this},
		"the new founds": {this, old, this, old},
	} {
		t.Run(name, func(t *testing.T) { contendBeside(t, programs) })
	}
}

// contendBeside starts the programs one after another, lets them contend at once, and judges.
func contendBeside(t *testing.T, programs []string) {
	fleet, err := redistest.StartReal(3)
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("SKIPPED, needs real servers: %v", err)
	}
	must(t, err)
	defer func() { must(t, fleet.Stop()) }()
	var all []*contestant
	for client, program := range programs {
		all = append(all, startBeside(t, program, client, fleet.Masters))
	}
	for _, c := range all {
		_, err := fmt.Fprintln(c.in, 2*time.Second)
		must(t, err)
	}
	var events []history.Event
	for _, c := range all {
		events = append(events, c.rest(t)...)
	}
	for _, v := range history.Check(events, history.Options{HonestClocks: true}) {
		t.Error(v)
	}
	holds := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Kind != history.Acquired })
	slices.SortFunc(holds, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Return, b.Return))
	})
	passed := 0 // from one version to the other
	for i, e := range holds[1:] {
		if last := holds[i]; last.Name == e.Name && programs[last.Client] != programs[e.Client] {
			passed++
		}
	}
	t.Logf("%d locks, of which %d passed from one version to the other", len(holds), passed)
	if passed < 20 {
		t.Errorf("a lock passed %d times from one version to the other: too few to judge", passed)
	}
}

// contestant is a running program.
type contestant struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	said   *child.Output
	events []history.Event
}

// startBeside starts a program, and returns when it has held a lock.
func startBeside(t *testing.T, program string, client int, masters []*redistest.Master) *contestant {
	t.Helper()
	args := []string{strconv.Itoa(client)}
	for _, m := range masters {
		args = append(args, m.URL())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &contestant{cmd: exec.CommandContext(ctx, program, args...), said: &child.Output{}}
	c.cmd.Stderr = c.said
	var err error
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.out = json.NewDecoder(out)
	must(t, c.cmd.Start())
	t.Cleanup(func() { cancel(); _ = c.cmd.Wait() }) // it has ended, unless the test has failed
	for len(c.events) < 2 {
		c.next(t)
	}
	var ready string
	must(t, c.await("says that it is ready", func() error { return c.out.Decode(&ready) }))
	return c
}

// rest returns all events, once the program has ended.
func (c *contestant) rest(t *testing.T) []history.Event {
	t.Helper()
	for c.next(t) {
	}
	must(t, c.await("ends", c.cmd.Wait))
	return c.events
}

func (c *contestant) next(t *testing.T) bool {
	t.Helper()
	var e history.Event
	err := c.await("prints an event", func() error { return c.out.Decode(&e) })
	if errors.Is(err, io.EOF) {
		return false
	}
	must(t, err)
	c.events = append(c.events, e)
	return true
}

func (c *contestant) await(what string, wait func() error) error {
	return child.Await(c.cmd, c.said, time.Minute, what, wait)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
