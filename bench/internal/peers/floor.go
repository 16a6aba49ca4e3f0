package peers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// Floor is two fan-outs over the library's own pipelines, each until a majority has answered: the
// least cost of a pair.
type Floor struct {
	name  string
	nodes []*node.Node
	list  *scripts.List
	calls func(list *scripts.List, name string) (lock, unlock scripts.Call)
}

// OpenNoOp returns the floor of a script that does nothing: a token written back for no names. It
// reads and writes no key.
func OpenNoOp(urls []string) (*Floor, error) {
	nothing := scripts.Raise(nil, scripts.NewOwner("bench", 1), 1)
	return openFloor("no-op script", urls, func(*scripts.List, string) (lock, unlock scripts.Call) {
		return nothing, nothing
	})
}

// OpenBare returns the floor of the library's own scripts without its engine: no deadline, no
// context, no schedule, no rollback. The library's time above it is the engine's share. Its own
// time above a no-op is the masters' share. It marks no master: the library must have used them.
func OpenBare(urls []string) (*Floor, error) {
	var number atomic.Uint64
	millis := scripts.ToMillis(quorum.DefaultLease)
	return openFloor("same scripts", urls, func(list *scripts.List, name string) (lock, unlock scripts.Call) {
		names := []scripts.Name{scripts.NewName(name)}
		owner := scripts.NewOwner("bench", number.Add(1))
		lock = scripts.Acquire(scripts.AcquireArgs{
			Names: names, Owner: owner, Level: 1, Lease: millis, List: list,
			Seed: uint64(time.Now().UnixMicro()),
		})
		return lock, scripts.Release(names, owner, 0)
	})
}

func openFloor(
	name string, urls []string, calls func(list *scripts.List, name string) (lock, unlock scripts.Call),
) (*Floor, error) {
	nodes, err := openNodes(urls)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return &Floor{name: name, nodes: nodes, list: scripts.NewList(names...), calls: calls}, nil
}

// Name returns the name of the script that is fanned out.
func (f *Floor) Name() string { return f.name }

// Pair implements [Peer].
func (f *Floor) Pair(ctx context.Context, name string) error {
	lock, unlock := f.calls(f.list, name)
	if err := f.fanOut(ctx, name, lock); err != nil {
		return err
	}
	return f.fanOut(ctx, name, unlock)
}

// Close implements [Peer].
func (f *Floor) Close() error { return closeNodes(f.nodes) }

func (f *Floor) fanOut(ctx context.Context, key string, call scripts.Call) error {
	t := &tally{need: majority(len(f.nodes)), left: len(f.nodes), enough: make(chan struct{})}
	for _, n := range f.nodes {
		if err := inside.Of(n).Pipe(key).Start(call, nil, t); err != nil {
			t.Done(pipeline.Result{Err: err})
		}
	}
	select {
	case <-t.enough:
		return t.outcome()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tally counts the answers of one fan-out.
type tally struct {
	enough chan struct{} // closed when need nodes answered, or no longer can

	mu         sync.Mutex
	need, left int
	closed     bool
	errs       []error
}

func (t *tally) Done(r pipeline.Result) {
	outcome := r.Reply.Acquire.Outcome // 0 for a release and the no-op
	if r.Err == nil && outcome != 0 && outcome != scripts.Granted {
		r.Err = errors.New("bench: refused")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left--
	if r.Err != nil {
		t.errs = append(t.errs, r.Err)
	} else {
		t.need--
	}
	if !t.closed && (t.need <= 0 || t.left < t.need) {
		t.closed = true
		close(t.enough)
	}
}

func (t *tally) outcome() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.need > 0 {
		return errors.Join(t.errs...)
	}
	return nil
}
