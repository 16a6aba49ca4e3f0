package contender

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"os"
	"sync"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitAlone  = 3 // the parent process has ended
)

// process is the state that the flows of a contender share.
type process struct {
	plan     Plan
	locker   Locker
	register *rpc.Client
	passes   chan struct{} // one value for each order Go
	stop     <-chan struct{}

	mu      sync.Mutex
	reports *json.Encoder
}

// Main is a contender's main: it runs the plan on standard input and returns the exit code.
func Main(factory Factory) int {
	in := bufio.NewReader(os.Stdin)
	p := &process{reports: json.NewEncoder(os.Stdout), passes: make(chan struct{}, 16)}
	if err := p.contend(in, factory); err != nil {
		p.report(Report{Did: Failed, Err: err.Error()})
		return exitFailed
	}
	// After the locker is closed, only the goroutine that reads orders may be left.
	ended := Report{Did: Ended}
	const obey = "github.com/quorumlock/quorumlock/integration/contender.(*process).obey"
	if leak := goleak.Find(goleak.IgnoreAnyFunction(obey)); leak != nil {
		ended.Err = leak.Error()
	}
	p.report(ended)
	return exitOK
}

func (p *process) contend(in *bufio.Reader, factory Factory) (err error) {
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.plan)
	}
	if err != nil {
		return fmt.Errorf("contender: read the plan: %w", err)
	}
	if p.register, err = rpc.Dial("tcp", p.plan.Register); err != nil {
		return fmt.Errorf("contender: register: %w", err)
	}
	defer p.register.Close()
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
	go p.obey(in, cancel) // ends with the process: a read of standard input cannot be cancelled

	group, ctx := errgroup.WithContext(ctx)
	for i := range max(p.plan.Flows, 1) {
		f := &flow{process: p, rng: rand.New(rand.NewPCG(p.plan.Seed, uint64(i)))}
		group.Go(func() error { return f.run(ctx) })
	}
	return group.Wait()
}

// obey follows orders. Their end means that the parent has ended, and with it every other way to
// end this process.
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

// gate waits for an order to begin the phase, if the plan is gated. Meanwhile it calls check now
// and then.
func (f *flow) gate(phase string, check func()) {
	if !f.plan.Gated {
		return
	}
	f.report(Report{Did: Waiting, Phase: phase})
	again := time.NewTicker(checkEvery)
	defer again.Stop()
	for {
		select {
		case <-f.passes:
			return
		case <-f.stop:
			return
		case <-again.C:
			check()
		}
	}
}

func (p *process) report(r Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.At = Now()
	_ = p.reports.Encode(r) // the parent may have ended
}
