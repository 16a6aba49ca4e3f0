//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/poll"
)

// Masters that have replicas, and Sentinels that promote these.

// Kinds of contenders, besides redsync, that play these schedules as controls.
const (
	plain = "no-failover"    // the complete library, without failover=N
	fewer = "fewer-replicas" // failover=N with one replica less than there are
)

// failing is how many masters, the first ones, fail over in a schedule: a majority.
func (r *run) failing() int { return r.n/2 + 1 }

// known is a master's URL as this kind of contender knows it: with how many replicas have to acknowledge.
func (r *run) known(url string) string {
	switch r.kind {
	case library:
		return url
	case fewer:
		before, two := strings.CutSuffix(url, "&failover=2")
		if !two {
			panic(url + " is not the URL of a master with two replicas")
		}
		return before + "&failover=1"
	}
	url, _, _ = strings.Cut(url, "&failover=")
	return url
}

// pinned makes paths for clients that are beside one process of each master, and stay there: 0 is the first primary.
func (r *run) pinned(group string, to int) *paths {
	p := r.apartFor(group)
	for i := range r.n {
		p.relays()[i].Turn(r.Groups[i].Servers[to].Addr())
	}
	return p
}

// followEvery is how often a path asks the Sentinels where it leads.
const followEvery = 50 * time.Millisecond

// An address moves, and the connections that there are end or stay.
func moves(f *forward.Forward, to string) { f.Turn(to) }
func stays(f *forward.Forward, to string) { f.Lead(to) }

// following makes paths to the primaries that the Sentinels name, by turn, which is moves or stays.
func (r *run) following(group string, turn func(*forward.Forward, string)) *paths {
	p := r.apartFor(group)
	ctx, stop := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for i := range r.n {
		asking.Go(func() {
			for to := r.Servers[i].Addr(); ctx.Err() == nil; {
				if next := r.Servers[i].Addr(); next != to {
					r.Notes.Log("%s follow %s to %s", p.group, r.Names[i], next)
					turn(p.relays()[i], next)
					to = next
				}
				select {
				case <-ctx.Done():
				case <-time.After(followEvery):
				}
			}
		})
	}
	r.t.Cleanup(func() { stop(); asking.Wait() })
	return p
}

// asking makes paths for clients that ask the Sentinels where the masters are, or that follow, if they cannot ask.
func (r *run) asking(group string) *paths {
	if !r.ours() {
		return r.following(group, moves)
	}
	return &paths{r.Cluster, group}
}

// primaries returns the present primaries of the masters that fail over.
func (r *run) primaries() (all []*failover.Server) {
	for i := range r.failing() {
		all = append(all, r.Groups[i].Named())
	}
	return all
}

// promoteBound is how long a promotion, or a return of a primary as a replica, may take on a busy machine: elections fail.
const promoteBound = time.Minute

// promoted waits until the Sentinels have other primaries than before.
func (r *run) promoted(before []*failover.Server) {
	r.t.Helper()
	began := time.Now()
	for i, old := range before {
		if !poll.Until(promoteBound, func() bool { return r.Groups[i].Named() != old }) {
			r.must(fmt.Errorf("the Sentinels promote nobody for %s within %v", r.Names[i], promoteBound))
		}
		r.happened("replica promoted", "for %s", r.Names[i])
	}
	r.Notes.Log("promoted after %v", time.Since(began).Round(time.Millisecond))
}

// failovers is how often a master has moved to another process.
func (c *cluster) failovers() (n int) {
	for _, g := range c.Groups {
		n += g.Moved()
	}
	return n
}

// switchOver has the Sentinels promote replicas by command.
func (r *run) switchOver() {
	r.t.Helper()
	before := r.primaries()
	for i, old := range before {
		r.happened("SENTINEL FAILOVER", "%s", r.Names[i])
		var err error
		if !poll.Until(promoteBound, func() bool {
			// They refuse it until they have seen that a replica is back, and it may fail.
			if err = r.Groups[i].Failover(); err != nil {
				return false
			}
			return poll.Until(5*time.Second, func() bool { return r.Groups[i].Named() != old })
		}) {
			r.must(errors.Join(errors.New("the Sentinels promote nobody"), err))
		}
	}
	r.promoted(before)
}

// whole waits until each master has all of its replicas, and then until the clients acquire, if any are given.
func (r *run) whole(by ...*worker) {
	r.t.Helper()
	began := time.Now()
	for i := range r.n {
		if !poll.Until(promoteBound, r.Groups[i].Whole) {
			r.must(fmt.Errorf("%s does not get its replicas back within %v", r.Names[i], promoteBound))
		}
	}
	r.Notes.Log("all replicas are back after %v", time.Since(began).Round(time.Millisecond))
	if len(by) > 0 {
		r.available(time.Now(), r.lease+10*slack, "all replicas are back", by...)
	}
}

// holdsOn starts a client that holds the lock nearly all the time.
func (r *run) holdsOn(by *paths) *worker {
	return r.start(contender.Plan{URLs: by.urls(), Hold: r.lease / 2, Rest: 10 * time.Millisecond, Patience: r.lease})
}
