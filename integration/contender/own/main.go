// Command own is a contender for this library's redlock, complete or with one protection switched
// off.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // masters die all the time
	os.Exit(contender.Main(open))
}

// open makes these kinds:
//
//   - library: the complete redlock.
//   - no-refusal: the complete redlock too; its masters accept a list that they should refuse.
//   - no-failover, fewer-replicas: the complete redlock too; its URLs do not say how many replicas there are, or too few.
//   - no-quarantine: redlock with trust in masters that forgot.
//   - no-deadline: redlock with a holder that checks neither the lock's context nor Valid.
//   - counting: no semaphore of this library; see counting.
//   - no-rollback: redlock that undoes no attempt after its caller gave up; see noRollback.
func open(p contender.Plan) (contender.Locker, error) {
	opts := []node.Option{node.WithTimeout(p.Timeout), node.WithMaxLease(p.MaxLease)}
	switch p.Kind {
	case "library", "no-refusal", "no-deadline", "no-failover", "fewer-replicas":
	case "no-quarantine":
		opts = append(opts, node.WithoutQuarantine())
	case "counting":
		return openCounting(p)
	case "no-rollback":
		return openNoRollback(p, opts)
	default:
		return nil, fmt.Errorf("own: no kind %q", p.Kind)
	}
	for tries := 1; ; tries++ { // a service restarts until a master says that it has this list: its number may be even
		locker, err := redlock.Open(p.URLs, quorum.WithLease(p.Lease), quorum.WithNodeOptions(opts...))
		switch {
		case err == nil:
			return &library{locker, p}, nil
		case !errors.Is(err, quorum.ErrUnavailable) || tries == 50:
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// library is a quorum.Locker as contenders use it.
type library struct {
	*quorum.Locker
	plan contender.Plan
}

func (l *library) Lock(ctx context.Context, name string) (contender.Lock, error) {
	take := func() (*quorum.Lock, error) { return l.Locker.Lock(ctx, name) }
	switch {
	case l.plan.Once:
		take = func() (*quorum.Lock, error) { return l.Locker.TryLock(ctx, name) }
	case l.plan.Slots > 0:
		take = func() (*quorum.Lock, error) { return semaphore.New(l.Locker, name, l.plan.Slots).Acquire(ctx) }
	}
	lock, err := take()
	if err != nil {
		return nil, err
	}
	if l.plan.Kind == "no-deadline" {
		return blind{lock, ctx}, nil
	}
	return lock, nil
}

// blind is a lock whose holder believes in it until Unlock.
type blind struct {
	*quorum.Lock
	span context.Context
}

func (b blind) Context() context.Context { return b.span }
func (b blind) Deadline() time.Time      { return time.Time{} }
func (b blind) Valid() bool              { return true }
