package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
)

// flows are the calls of this process that wait while their flows hold locks: only these can wait for each other.
type flows struct {
	mu    sync.Mutex
	calls map[string]map[*call]*Lock // by each name that a call wants, the innermost lock of its flow
}

// awaitWithin is await in a flow, whose innermost lock is given; nil for none.
func (c *call) awaitWithin(flow *Lock, ctx context.Context, o *observation) (*Lock, error) {
	if flow == nil || c.slots != nil {
		return c.await(ctx, o)
	}
	if nests := c.set.Nests; nests != nil && c.set.wait == noBound {
		nests(flow.held(c.engine), c.wants.Names)
	}
	f := &c.room.flows
	f.enter(c, flow)
	defer f.leave(c)
	lock, err := c.await(ctx, o)
	if failed, _ := err.(*Error); failed != nil {
		failed.causes = append(failed.causes, f.circle(c, flow)...)
	}
	return lock, err
}

func (f *flows) enter(c *call, flow *Lock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range c.wants.Names {
		if f.calls[name] == nil {
			f.calls[name] = map[*call]*Lock{}
		}
		f.calls[name][c] = flow
	}
}

func (f *flows) leave(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range c.wants.Names {
		if delete(f.calls[name], c); len(f.calls[name]) == 0 {
			delete(f.calls, name)
		}
	}
}

// circle says for which name the call's flow waits whose holder waits for this flow, in a call of this process. It looks
// only at calls that want what the flow holds: they may be few of many.
func (f *flows) circle(c *call, flow *Lock) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ours := range flow.held(c.engine) {
		for _, theirs := range f.calls[ours] {
			for _, want := range theirs.held(c.engine) {
				if slices.Contains(c.wants.Names, want) {
					return []error{detail(fmt.Sprintf("this context holds %.64q and waits for %.64q, whose holder waits for %.64[1]q", ours, want))}
				}
			}
		}
	}
	return nil
}

// held returns the names that the flow holds, without those that it shares with other readers.
func (l *Lock) held(by *engine.Engine) (names []string) {
	for ; l != nil; l = l.outer {
		if l.locker.engine == by && l.target.Slots == nil && l.Valid() && !l.Shared() {
			names = append(names, l.first.target.Names...)
		}
	}
	return names
}
