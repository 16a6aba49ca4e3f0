//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/failover"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// Masters that have replicas, and Sentinels that promote these.

// Kinds of contenders, besides redsync, that play these schedules as controls.
const (
	plain = "no-failover"    // the complete library, without failover=N
	fewer = "fewer-replicas" // failover=N with one replica less than there are
)

// replicated is a master of several processes. What the harness asks or does, it does to the primary.
type replicated struct {
	*failover.Group
	stop func() error

	mu    sync.Mutex
	last  *failover.Server // that the Sentinels named
	moved int              // how often they named another one
	hit   *failover.Server // by Kill or Freeze
}

// newReplicated starts n masters with replicas.
func newReplicated(n, replicas int, log func(string, ...any)) (*cluster, error) {
	s, err := failover.Start(n, replicas)
	if err != nil {
		return nil, err
	}
	c := &cluster{log: log, began: time.Now(), tracks: timeline.Recorder{Now: now}, counts: map[string]int{}, replicas: replicas,
		sentinels: s.URLs()}
	stop := sync.OnceValue(s.Stop)
	for _, g := range s.Groups {
		c.servers = append(c.servers, &replicated{Group: g, stop: stop, last: g.Servers[0]})
	}
	return c, nil
}

// primary is the server that the Sentinels named last.
func (g *replicated) primary() *failover.Server {
	one, err := g.Primary()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && one != g.last {
		g.last = one
		g.moved++
	}
	return g.last
}

func (g *replicated) hits() *failover.Server {
	one := g.primary()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hit = one
	return one
}

func (g *replicated) wasHit() *failover.Server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hit
}

func (g *replicated) Addr() string                { return g.primary().Addr() }
func (g *replicated) URL() string                 { return "redis://" + g.Addr() }
func (g *replicated) Kill() error                 { return g.hits().Kill() }
func (g *replicated) Start() error                { return g.wasHit().Start() }
func (g *replicated) Freeze() error               { return g.hits().Freeze() }
func (g *replicated) Thaw() error                 { return g.wasHit().Thaw() }
func (g *replicated) Do(args ...any) (any, error) { return g.primary().Do(args...) }
func (g *replicated) Stop() error                 { return g.stop() }

// group returns the master in a place.
func (c *cluster) group(i int) *replicated { return c.servers[i].(*replicated) }

// failing is how many masters, the first ones, fail over in a schedule: a majority.
func (r *run) failing() int { return r.n/2 + 1 }

// failoverQuery says how many replicas have to acknowledge, to this kind of contender.
func failoverQuery(kind string, replicas int) string {
	if kind == fewer {
		replicas--
	}
	if replicas == 0 || kind != library && kind != fewer {
		return ""
	}
	return fmt.Sprintf("&failover=%d", replicas)
}

// pinned makes paths for clients that are beside one process of each master, and stay there: 0 is the first primary.
func (r *run) pinned(group string, to int) *paths {
	p := r.apartFor(group)
	for i := range r.n {
		p.forwards[i].Turn(r.group(i).Servers[to].Addr())
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
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for i := range r.n {
		asking.Go(func() {
			for to := r.group(i).Addr(); ; {
				if next := r.group(i).Addr(); next != to {
					r.log("+%v %s follow master %d to %s", time.Since(r.began).Round(time.Millisecond), p.group, i+1, next)
					turn(p.forwards[i], next)
					to = next
				}
				select {
				case <-stop:
					return
				case <-time.After(followEvery):
				}
			}
		})
	}
	r.ends = append(r.ends, func() { close(stop); asking.Wait() })
	return p
}

// asking makes paths for clients that ask the Sentinels where the masters are, or that follow, if they cannot ask.
func (r *run) asking(group string) *paths {
	if !r.ours() {
		return r.following(group, moves)
	}
	p := r.apartFor(group)
	for _, url := range r.sentinels {
		url, _, _ = strings.Cut(url, "?")
		p.named = append(p.named, url)
	}
	return p
}

// primaries returns the present primaries of the masters that fail over.
func (r *run) primaries() (all []*failover.Server) {
	for i := range r.failing() {
		all = append(all, r.group(i).primary())
	}
	return all
}

// isolate cuts a primary off from its replicas and the Sentinels, not from clients. What they say meanwhile arrives
// when it joins.
func (r *run) isolate(i int) error {
	r.happened(ofMaster(i), "primary cut off from replicas and Sentinels", "master %d", i+1)
	r.begins(ofMaster(i), timeline.Hindered, "isolated")
	g := r.group(i)
	g.Isolate(g.hits())
	return nil
}

func (r *run) join(i int) error {
	r.log("+%v the cut off server of master %d joins", time.Since(r.began).Round(time.Millisecond), i+1)
	r.tracks.End(ofMaster(i), "isolated")
	r.group(i).Join(r.group(i).wasHit())
	return nil
}

// promoteBound is how long a promotion, or a return of a primary as a replica, may take on a busy machine: elections fail.
const promoteBound = time.Minute

// promoted waits until the Sentinels have other primaries than before.
func (r *run) promoted(before []*failover.Server) {
	r.t.Helper()
	began := time.Now()
	for i, old := range before {
		if !poll.Until(promoteBound, func() bool { return r.group(i).primary() != old }) {
			r.must(fmt.Errorf("the Sentinels promote nobody for master %d within %v", i+1, promoteBound))
		}
		r.happened(ofMaster(i), "replica promoted", "for master %d", i+1)
	}
	r.log("+%v promoted after %v", time.Since(r.began).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// failovers is how often a master has moved to another process.
func (c *cluster) failovers() (n int) {
	for _, s := range c.servers {
		if g, ok := s.(*replicated); ok {
			g.mu.Lock()
			n += g.moved
			g.mu.Unlock()
		}
	}
	return n
}

// switchOver has the Sentinels promote replicas by command.
func (r *run) switchOver() {
	r.t.Helper()
	before := r.primaries()
	for i, old := range before {
		r.happened(ofMaster(i), "SENTINEL FAILOVER", "master %d", i+1)
		var err error
		if !poll.Until(promoteBound, func() bool {
			// They refuse it until they have seen that a replica is back, and it may fail.
			if err = r.group(i).Failover(); err != nil {
				return false
			}
			return poll.Until(5*time.Second, func() bool { return r.group(i).primary() != old })
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
		if !poll.Until(promoteBound, r.group(i).Whole) {
			r.must(fmt.Errorf("master %d does not get its replicas back within %v", i+1, promoteBound))
		}
	}
	r.log("+%v all replicas are back after %v", time.Since(r.began).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if len(by) > 0 {
		r.available(time.Now(), r.lease+10*slack, "all replicas are back", by...)
	}
}

// holdsOn is a plan to hold the lock nearly all the time.
func (r *run) holdsOn(by *paths) contender.Plan {
	return contender.Plan{URLs: by.urls(), Hold: r.lease / 2, Rest: 10 * time.Millisecond, Patience: r.lease}
}
