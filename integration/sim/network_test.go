package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/integration/fake"
)

var (
	errReset   = fmt.Errorf("sim: %w", syscall.ECONNRESET)
	errRefused = fmt.Errorf("sim: %w", syscall.ECONNREFUSED)
)

// network joins clients and masters.
type network struct {
	plan    *plan
	start   time.Time
	masters []*fake.Master

	serving sync.WaitGroup
	mu      sync.Mutex
	dialled map[link]uint64 // connections so far
	open    map[link][]*conn
}

// link names a client and a master.
type link struct{ client, master int }

func newNetwork(p *plan, start time.Time, masters []*fake.Master) *network {
	return &network{plan: p, start: start, masters: masters, dialled: map[link]uint64{}, open: map[link][]*conn{}}
}

// dial makes a connection. A master that is parted from the client, or frozen, keeps it waiting.
func (n *network) dial(ctx context.Context, l link, g *gate, heard func()) (net.Conn, error) {
	g.pass()
	n.mu.Lock()
	n.dialled[l]++
	number := n.dialled[l]
	n.mu.Unlock()
	up, down := n.road(l, number, true), n.road(l, number, false)

	at, _ := up.carry()
	if err := sleepUntil(ctx, at); err != nil {
		return nil, err
	}
	master := n.masters[l.master]
	if !master.Up() {
		return nil, errRefused
	}
	clientEnd, masterEnd := connect(up, down, g, heard, addr(fmt.Sprintf("client%d:%d", l.client, number)), addr(fmt.Sprintf("master%d:6379", l.master)))
	n.mu.Lock()
	n.open[l] = append(n.open[l], clientEnd)
	n.mu.Unlock()
	n.serving.Go(func() { master.Serve(masterEnd) })

	at, _ = down.carry()
	if err := sleepUntil(ctx, at); err != nil {
		clientEnd.Close()
		return nil, err
	}
	g.pass()
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
}

func (n *network) road(l link, number uint64, up bool) *road {
	direction := uint64(0)
	if up {
		direction = 1
	}
	return &road{n, l, up, n.plan.dice("road", uint64(l.client), uint64(l.master), number, direction).Uint64()}
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
	return r.net.start.Add(p.clear(r, dice, sent+delay)), lost
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
