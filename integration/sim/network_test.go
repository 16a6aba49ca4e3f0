package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

var (
	errReset   = fmt.Errorf("sim: %w", syscall.ECONNRESET)
	errRefused = fmt.Errorf("sim: %w", syscall.ECONNREFUSED)
)

// network connects clients and masters.
type network struct {
	*world

	serving sync.WaitGroup
	mu      sync.Mutex
	dialled map[link]uint64 // connections so far
	open    map[link][]*conn
}

// link names a client and a master.
type link struct{ client, master int }

// dial makes a connection. It takes as long as a partition from the master, or the master's freeze,
// lasts.
func (n *network) dial(ctx context.Context, c *client, to int) (net.Conn, error) {
	l := link{c.id, to}
	n.mu.Lock()
	n.dialled[l]++
	number := n.dialled[l]
	n.mu.Unlock()
	up, down := n.direction(l, number, true), n.direction(l, number, false)
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
	clientEnd, masterEnd := connect(up, down, c, addr(fmt.Sprintf("%v:%d", c, number)),
		addr(fmt.Sprintf("master%d:6379", to)))
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

// reset kills the open connections.
func (n *network) reset(l link) {
	n.mu.Lock()
	conns := n.open[l]
	n.open[l] = nil
	n.mu.Unlock()
	for _, c := range conns {
		at, _ := c.outbound.carry()
		c.cut(at)
	}
}

// direction is one direction of one connection.
type direction struct {
	net  *network
	link link
	up   bool
	key  uint64 // of its random numbers
	slot slot   // the slot in which its data arrives
}

func (n *network) direction(l link, number uint64, up bool) *direction {
	way := uint64(0)
	if up {
		way = 1
	}
	p, client, master := n.plan, uint64(l.client), uint64(l.master)
	own := ((number*uint64(p.clients)+client)*uint64(p.masters)+master)*2 + way
	// The purpose "road" is part of the seeds: another word would change every run.
	return &direction{n, l, up, p.rng("road", client, master, number, way).Uint64(), directionSlots +
		slot(own)%(timeSlots-directionSlots)}
}

// carry decides when data sent now arrives, or whether the connection dies instead. The result
// depends only on the time. Goroutines run in any order, so data of one instant may be sent at once
// or in pieces, and both must have the same result.
func (d *direction) carry() (at time.Time, lost bool) {
	p, now := d.net.plan, time.Since(d.net.start)
	rng := rand.New(rand.NewPCG(d.key, uint64(now)))
	sent := p.clear(d, rng, now)
	usual := min(rng.ExpFloat64(), 2) // well below every timeout
	delay := p.latency/2 + time.Duration(float64(p.latency)*usual)
	if sent < p.healed {
		if rng.Float64() < p.slow {
			delay += time.Duration(rng.Float64() * float64(p.slowest))
		}
		lost = rng.Float64() < p.loss
	}
	return d.slot.from(d.net.start.Add(p.clear(d, rng, sent+delay))), lost
}

// sleepUntil delays a dial. The library sees the end of the context at its instant; the dial sees it
// later, in its slot.
func (d *direction) sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		d.slot.wait()
		return ctx.Err()
	}
}
