// Package demo is the command that shows the lock at work: on five masters that it starts itself, two workers
// contend, masters die and come back, and each claim about the lock is checked.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	masterCount = 5
	// lease is also the demo's max lease, and so the length of a quarantine.
	lease = 2500 * time.Millisecond
	// timeout is long for loopback: a busy machine must not look like a dead master.
	timeout  = lease / 2
	resource = "invoice:42"
)

var names = [masterCount]string{"m1", "m2", "m3", "m4", "m5"}

// demo is the state that the steps of the story share.
type demo struct {
	*narrator
	chart *timeline.Recorder // of what masters and workers go through
	fleet *redistest.Fleet
	a, b  *worker

	lock    *quorum.Lock       // worker A's lock, which outlives masters
	ended   <-chan time.Time   // when lock's context ended
	next    <-chan acquisition // of worker B, which waits for that lock
	waiting sync.WaitGroup     // worker B's goroutine
}

// worker stands for a process: it has its own connections to the masters.
type worker struct {
	name   string
	nodes  []*node.Node
	locker *quorum.Locker
}

// Command demonstrates the lock.
var Command = cli.Command{
	Name: "demo", Usage: "start five masters, lock, kill masters one after another, bring them back, draw what happened; under 40 s",
	Help: `Example:
  quorumlock demo -svg demo.svg

Exit codes: 0 if all went well, 1 if not, 130 after Ctrl-C.`,
	Define: func(flags *cli.Flags) cli.Action {
		svg := ""
		flags.Path("svg", "write the picture at the end to `FILE`, too, as an SVG", &svg)
		return func(ctx context.Context, p *cli.Program, _ []string) int {
			return demonstrate(ctx, startMasters, svg, p.Stdout, p.Stderr)
		}
	},
}

// startMasters starts redis-server processes, or stand-ins where there is no redis-server.
func startMasters(n int, args ...string) (*redistest.Fleet, error) {
	fleet, err := redistest.StartReal(n, args...)
	if errors.Is(err, redistest.ErrNoServer) {
		return standin.Start(n)
	}
	return fleet, err
}

// demonstrate runs the demo on masters that it starts and stops. It writes the picture to the file svg,
// too, if it comes to its end; "" for none.
func demonstrate(ctx context.Context, start func(n int, args ...string) (*redistest.Fleet, error), svg string,
	stdout, stderr io.Writer) (code int) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	story := &narrator{out: stdout, begun: time.Now(), failed: cancel}

	story.print("One lock over five Redis masters: it holds while a majority, three of them, granted it.\n\n")
	fleet, err := start(masterCount)
	if err != nil {
		fmt.Fprintf(stderr, "quorumlock: demo: %v\n", err)
		return cli.ExitFailed
	}
	d := &demo{narrator: story, fleet: fleet, chart: newChart(story.begun)}
	err = d.runSteps(ctx)
	switch {
	case outer.Err() != nil:
		fmt.Fprintln(stderr, "quorumlock: demo: interrupted; its masters and their files are gone")
		return cli.ExitInterrupted
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if err == nil {
		err = errors.Join(d.draw(svg, stdout), context.Cause(ctx)) // the output may fail meanwhile
	}
	if err != nil {
		fmt.Fprintf(stderr, "quorumlock: demo: %v\n", err)
	}
	if held := story.verdict(); !held || err != nil {
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// runSteps runs the steps. It stops the masters even after a panic.
func (d *demo) runSteps(ctx context.Context) (err error) {
	steps, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		// The masters first: they must not stay if the rest fails.
		err = errors.Join(err, d.fleet.Stop())
		d.a.close()
		d.b.close()
		d.waiting.Wait()
	}()
	for i, m := range d.fleet.Masters {
		d.chart.Add(names[i], timeline.Span{State: timeline.Quarantine})
		d.say("%s is %s", names[i], m.Addr())
	}
	d.say("they are %s, ended with all their files when the demo ends", d.fleet.Kind)
	if d.a, err = d.newWorker(workerA); err != nil {
		return err
	}
	if d.b, err = d.newWorker(workerB); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		d.deploy, d.contend, d.hold, d.loseMinority, d.loseMajority, d.comeBack,
	} {
		if err := step(steps); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) draw(svg string, stdout io.Writer) error {
	drawn := picture(d.chart)
	d.chapter("6. All of it in one picture")
	terminal, _ := cli.TerminalSize(stdout)
	d.print(drawn.Text(lineStyle(terminal)))
	if svg == "" {
		return nil
	}
	return os.WriteFile(svg, []byte(drawn.SVG()), 0o666)
}

// newWorker returns a worker, which the caller closes even when there is an error.
func (d *demo) newWorker(name string) (*worker, error) {
	w := &worker{name: name}
	for i, url := range d.fleet.URLs() {
		n, err := node.Open(url, node.WithName(names[i]), node.WithMaxLease(lease),
			node.WithTimeout(timeout), node.WithLogger(masters.Silent))
		if err != nil {
			return w, err
		}
		w.nodes = append(w.nodes, n)
	}
	var err error
	w.locker, err = redlock.New(w.nodes, quorum.WithLease(lease), quorum.WithLogger(masters.Silent))
	return w, err
}

func (w *worker) close() {
	if w == nil {
		return
	}
	if w.locker != nil {
		w.locker.Close()
	}
	masters.CloseAll(w.nodes)
}

// deploy shows that new masters grant nothing until one max lease has passed or an operator admits them.
func (d *demo) deploy(ctx context.Context) error {
	d.chapter("1. New masters")
	d.say("an empty master may be new, or may have crashed and forgotten the locks it had granted: no client can tell,")
	d.say("so it grants nothing until every earlier lease must be over: quarantine, for one max lease, here %v", lease)
	lock, err := d.a.locker.TryLock(ctx, resource) //quorumvet:ok a stopped demo takes its masters along
	if ctx.Err() != nil {
		return ctx.Err()
	}
	isRefused := lock == nil && errors.Is(err, quorum.ErrQuarantined)
	switch stoodStill := time.Since(d.begun) > lease; {
	case isRefused || !stoodStill:
		d.claim(isRefused, "worker A asks for the lock on %s and is refused: %v", resource, err)
	case lock != nil:
		d.say("this machine stood still until the quarantine was over, so it cannot be shown: worker A has the lock")
	default:
		d.say("this machine stood still until the quarantine was over, so it cannot be shown: %v", err)
	}
	if lock != nil {
		if err := lock.Unlock(ctx); err != nil {
			return err
		}
	}
	d.chart.Mark(workerA, "refused")
	for i, n := range d.a.nodes {
		if err := operator.Admit(ctx, n); err != nil {
			return err
		}
		d.chart.End(names[i], "")
		d.chart.Add(names[i], timeline.Span{State: timeline.Up})
	}
	d.say("this demo started the masters, so it knows that no lock is held, and admits them (operator.Admit): they grant at once")
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	masters.Sleep(ctx, d)
	return ctx.Err()
}

// guard turns a goroutine's panic into an error: the panic would end the process and leave its masters running.
func guard(err *error) {
	if x := recover(); x != nil {
		*err = errors.Join(*err, fmt.Errorf("panic: %v\n%s", x, debug.Stack()))
	}
}
