package contender

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/integration/history"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitAlone  = 3 // the process that started it is gone
)

// process is what the flows of a contender share.
type process struct {
	plan   Plan
	locker Locker
	passes chan struct{} // an order Go each; closed when there will be none any more
	stop   <-chan struct{}

	mu      sync.Mutex
	reports *json.Encoder
	history *os.File
}

// Main is a contender's main: it runs the plan on standard input and returns the exit code.
func Main(factory Factory) int {
	in := bufio.NewReader(os.Stdin)
	p := &process{reports: json.NewEncoder(os.Stdout), passes: make(chan struct{}, 16)}
	if err := p.contend(in, factory); err != nil {
		p.report(Report{Did: Failed, Err: err.Error()})
		return exitFailed
	}
	// What obeys is still there; nothing else may be, now that the locker is closed.
	ended := Report{Did: Ended}
	if leak := goleak.Find(goleak.IgnoreAnyFunction("github.com/quorumlock/quorumlock/integration/contender.(*process).obey")); leak != nil {
		ended.Err = leak.Error()
	}
	p.report(ended)
	return exitOK
}

func (p *process) contend(in *bufio.Reader, factory Factory) (err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("contender: read the plan: %w", err)
	}
	if err := json.Unmarshal(line, &p.plan); err != nil {
		return fmt.Errorf("contender: read the plan: %w", err)
	}
	if p.history, err = os.OpenFile(p.plan.History, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	defer p.history.Close()
	if p.locker, err = factory(p.plan); err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	defer func() {
		if closed := p.locker.Close(); err == nil {
			err = closed
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.stop = ctx.Done()
	go p.obey(in, cancel) // ends with the process: a read of standard input cannot be cut off

	group, ctx := errgroup.WithContext(ctx)
	for i := range max(p.plan.Flows, 1) {
		f := &flow{process: p, dice: rand.New(rand.NewPCG(p.plan.Seed, uint64(i))), register: &registerConn{addr: p.plan.Register}}
		group.Go(func() error { return f.run(ctx) })
	}
	return group.Wait()
}

// obey follows orders. Their end means that whoever gave them is gone: nobody would end this process.
func (p *process) obey(in *bufio.Reader, stop func()) {
	for {
		order, err := in.ReadString('\n')
		if err != nil {
			os.Exit(exitAlone)
		}
		switch order {
		case Go + "\n":
			p.passes <- struct{}{}
		case Stop + "\n":
			stop()
		}
	}
}

// gate waits for an order to begin the phase, where the plan says so; meanwhile it looks every now and then.
func (f *flow) gate(phase string, look func() error) {
	if !f.plan.Gated {
		return
	}
	f.report(Report{Did: Waiting, Phase: phase})
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		select {
		case <-f.passes:
			return
		case <-f.stop:
			return
		case <-again.C:
			if look != nil && look() != nil {
				return
			}
		}
	}
}

func (p *process) report(r Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.At = Now()
	_ = p.reports.Encode(r) // nobody may be listening any more
}

func (p *process) record(e history.Event) error {
	return history.WriteJSON(p.history, e)
}
