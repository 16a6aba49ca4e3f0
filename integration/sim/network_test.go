package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

var (
	errReset   = fmt.Errorf("sim: %w", syscall.ECONNRESET)
	errRefused = fmt.Errorf("sim: %w", syscall.ECONNREFUSED)
)

// network joins clients and masters.
type network struct {
	plan    *plan
	start   time.Time
	masters []*fakeredis.Master

	serving sync.WaitGroup
	mu      sync.Mutex
	dialled map[link]uint64 // connections so far
	open    map[link][]*conn
}

// link names a client and a master.
type link struct{ client, master int }

func newNetwork(p *plan, start time.Time, masters []*fakeredis.Master) *network {
	return &network{plan: p, start: start, masters: masters, dialled: map[link]uint64{}, open: map[link][]*conn{}}
}

// dial makes a connection. A master that is parted from the client, or frozen, keeps it waiting.
func (n *network) dial(ctx context.Context, c *client, to int) (net.Conn, error) {
	l := link{c.id, to}
	n.mu.Lock()
	n.dialled[l]++
	number := n.dialled[l]
	n.mu.Unlock()
	up, down := n.road(l, number, true), n.road(l, number, false)
	up.slot.wait()
	c.gate.pass(up.slot)
	if c.dead.Load() {
		return nil, errRefused
	}

	at, _ := up.carry()
	if err := up.sleepUntil(ctx, at); err != nil {
		return nil, err
	}
	master := n.masters[to]
	if !master.Up() {
		return nil, errRefused
	}
	clientEnd, masterEnd := connect(up, down, c, addr(fmt.Sprintf("%v:%d", c, number)), addr(fmt.Sprintf("master%d:6379", to)))
	n.mu.Lock()
	n.open[l] = append(n.open[l], clientEnd)
	n.mu.Unlock()
	n.serving.Go(func() { master.Serve(masterEnd) })

	at, _ = down.carry()
	if err := down.sleepUntil(ctx, at); err != nil {
		clientEnd.Close()
		return nil, err
	}
	c.gate.pass(down.slot)
	return clientEnd, nil
}

// reset kills the connections that there are.
func (n *network) reset(l link) {
	n.mu.Lock()
	conns := n.open[l]
	n.open[l] = nil
	n.mu.Unlock()
	for _, c := range conns {
		at, _ := c.road.carry()
		c.cut(at)
	}
}

// road is one direction of one connection.
type road struct {
	net  *network
	link link
	up   bool
	key  uint64 // of its dice
	slot slot   // in which things arrive
}

func (n *network) road(l link, number uint64, up bool) *road {
	direction := uint64(0)
	if up {
		direction = 1
	}
	p, client, master := n.plan, uint64(l.client), uint64(l.master)
	own := ((number*uint64(p.clients)+client)*uint64(p.masters)+master)*2 + direction
	return &road{n, l, up, p.dice("road", client, master, number, direction).Uint64(), roadSlots + slot(own)%(timeSlots-roadSlots)}
}

// carry decides when something that is sent now arrives, and whether the connection dies in place of that. It depends on nothing
// but the time: whether what is sent within one instant is sent at once or in pieces is left to the order of goroutines, and
// must not change what comes of it.
func (r *road) carry() (at time.Time, lost bool) {
	p, now := r.net.plan, time.Since(r.net.start)
	dice := rand.New(rand.NewPCG(r.key, uint64(now)))
	sent := p.clear(r, dice, now)
	usual := min(dice.ExpFloat64(), 2) // well below every time-out
	delay := p.latency/2 + time.Duration(float64(p.latency)*usual)
	if sent < p.healed {
		if dice.Float64() < p.slow {
			delay += time.Duration(dice.Float64() * float64(p.slowest))
		}
		lost = dice.Float64() < p.loss
	}
	return r.slot.from(r.net.start.Add(p.clear(r, dice, sent+delay))), lost
}

// sleepUntil is for who dials. The library notices for itself when the context ends, at the same instant; it hears of it later.
func (r *road) sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.slot.wait()
		return ctx.Err()
	}
}
