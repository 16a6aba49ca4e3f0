package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	election      = "scheduler"
	electionLease = 1500 * time.Millisecond
	candidateURLs = "QUORUMLOCK_TEST_CANDIDATE_URLS"

	validEvery = 2 * time.Millisecond // the precision of the known end of a term
)

// openCandidate opens a locker of its own, and a candidate on it.
func openCandidate(urls []string) (*quorum.Locker, *leader.Candidate, error) {
	locker, err := redlock.Open(urls, quorum.WithLease(electionLease),
		quorum.WithNodeOptions(node.WithTimeout(briefTimeout), node.WithoutQuarantine()))
	if err != nil {
		return nil, nil, err
	}
	c, err := leader.New(locker, election)
	if err != nil {
		return nil, nil, errors.Join(err, locker.Close())
	}
	return locker, c, nil
}

// leadAndReport leads as often as it can, until ctx ends, and reports while its term is valid. A careless
// leader does not ask whether it is.
func leadAndReport(ctx context.Context, c *leader.Candidate, careless bool, report func(validity)) error {
	called := contender.Now()
	return c.Run(ctx, func(within context.Context, t *leader.Term) error {
		defer func() { called = contender.Now() }()
		again := time.NewTicker(validEvery)
		defer again.Stop()
		for {
			at := contender.Now()
			if !careless && !t.Valid() {
				return context.Cause(within)
			}
			report(validity{t.ID(), t.Token(), called, at})
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-again.C:
			}
		}
	})
}

// hasStopped reports whether Run ended because its context did: in the midst of a term, or beside the loss of one.
func hasStopped(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || ctx.Err() != nil && errors.Is(err, quorum.ErrLost)
}

// candidateProcess contends until its input ends, and writes each report as a line.
func candidateProcess() int {
	locker, c, err := openCandidate(strings.Split(os.Getenv(candidateURLs), " "))
	if err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		return 1
	}
	defer locker.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	lines := json.NewEncoder(os.Stdout)
	err = leadAndReport(ctx, c, false, func(v validity) { _ = lines.Encode(v) })
	if !hasStopped(ctx, err) {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		return 1
	}
	return 0
}

// contestant is a candidate of a test: a goroutine or a process, with a path of its own to the masters.
type contestant struct {
	path *network

	process *exec.Cmd // nil for a goroutine
	printed child.Output
	input   io.Closer // its end tells the process to resign, and to end

	locker *quorum.Locker // nil for a process
	cancel context.CancelFunc

	ended chan struct{} // closed when it contends no more
}

// start starts a contestant. It ends with the test.
func (e *elections) start(t *testing.T, f *redistest.Fleet, client int, process, careless bool) *contestant {
	t.Helper()
	c := &contestant{path: proxied(t, f), ended: make(chan struct{})}
	if process {
		c.startProcess(t, e, client)
		return c
	}
	locker, candidate, err := openCandidate(c.path.URLs())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c.locker, c.cancel = locker, cancel
	go func() {
		defer close(c.ended)
		err := leadAndReport(ctx, candidate, careless, func(v validity) { e.add(client, v) })
		if !hasStopped(ctx, err) && !errors.Is(err, quorum.ErrClosed) {
			t.Errorf("candidate %d: %v", client, err)
		}
	}()
	t.Cleanup(func() {
		c.path.each((*proxy).heal)
		_ = c.end() // a test that is over may have closed it
	})
	return c
}

func (c *contestant) startProcess(t *testing.T, e *elections, client int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c.process = exec.Command(self)
	c.process.Env = append(os.Environ(), "GOMAXPROCS=2", childRole+"=candidate",
		candidateURLs+"="+strings.Join(c.path.URLs(), " "))
	c.process.Stderr = &c.printed
	c.input, err = c.process.StdinPipe()
	must(t, err)
	out, err := c.process.StdoutPipe()
	must(t, err)
	must(t, c.process.Start())
	go func() {
		defer close(c.ended)
		for lines := bufio.NewScanner(c.printed.Tee(out)); lines.Scan(); {
			var v validity
			if json.Unmarshal(lines.Bytes(), &v) == nil { // the last line of a process that was killed may be cut short
				e.add(client, v)
			}
		}
		c.process.Wait()
	}()
	t.Cleanup(c.kill)
}

// end lets the contestant resign, and returns when it has ended.
func (c *contestant) end() error {
	if c.process != nil {
		c.input.Close()
		return child.Await(c.process, &c.printed, patience, "a candidate resigns", func() error { <-c.ended; return nil })
	}
	c.cancel()
	<-c.ended
	return c.locker.Close()
}

// kill ends a process at once, frozen or not. A goroutine's locker is closed, which leaves its keys.
func (c *contestant) kill() {
	if c.process != nil {
		c.process.Process.Kill()
	} else {
		c.locker.Close()
	}
	<-c.ended
}

// cutOff lets nothing pass in either direction. What is lost is lost, or arrives late, when it heals.
func (c *contestant) cutOff(lost bool) {
	w := weather{held: !lost, dropped: lost}
	c.path.each(func(p *proxy) { p.set(requests, w); p.set(replies, w) })
}

func (c *contestant) heal() { c.path.each((*proxy).heal) }
