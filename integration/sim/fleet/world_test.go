package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock/fakeclock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

type region int

const (
	regionA region = iota
	regionB
	regionC
	regions // how many there are
)

func (r region) String() string { return string("ABC"[r]) }

// The round trips: within a region, between A and B, and from C to both.
const (
	inside = time.Millisecond
	near   = 30 * time.Millisecond
	far    = 80 * time.Millisecond
)

func roundTrip(from, to region) time.Duration {
	switch {
	case from == to:
		return inside
	case from == regionC || to == regionC:
		return far
	}
	return near
}

// masterRegions are the regions of the masters. None has a majority of them, so that any may be cut off.
var masterRegions = []region{regionA, regionA, regionB, regionB, regionC}

// world is the masters and the wires to them.
type world struct {
	masters  []*master
	up, down [regions][]*wire // by region and master
	running  sync.WaitGroup
}

// newWorld starts masters in these regions, whose commands take so long each.
func newWorld(at []region, takes time.Duration) *world {
	w := &world{}
	for i, to := range at {
		m := newMaster(to, takes, uint64(i+1))
		w.masters = append(w.masters, m)
		w.running.Go(m.run)
		for from := range regions {
			delay := roundTrip(from, to) / 2
			up, down := newWire(delay, m.arrived), newWire(delay, func(p parcel) { p.conn.arrived(p) })
			w.up[from], w.down[from] = append(w.up[from], up), append(w.down[from], down)
			w.running.Go(up.run)
			w.running.Go(down.run)
		}
	}
	return w
}

// forEachWire calls do with every wire and its ends.
func (w *world) forEachWire(do func(wire *wire, a, b region)) {
	for from := range regions {
		for i, m := range w.masters {
			do(w.up[from][i], from, m.region)
			do(w.down[from][i], from, m.region)
		}
	}
}

// setCut cuts a region off from the others, or ends that.
func (w *world) setCut(at region, cut bool) {
	w.forEachWire(func(wire *wire, a, b region) {
		if (a == at) != (b == at) {
			wire.setCut(cut)
		}
	})
}

// end stops the masters. No process may run.
func (w *world) end() {
	w.forEachWire(func(wire *wire, _, _ region) { wire.end() })
	for _, m := range w.masters {
		m.end()
	}
	w.running.Wait()
}

func host(master int) string { return fmt.Sprintf("master%d", master+1) }

// open returns the locker of a process in a region.
func (w *world) open(at region, process string, opts ...quorum.Option) (*quorum.Locker, error) {
	var urls []string
	for i := range w.masters {
		urls = append(urls, "redis://"+host(i))
	}
	dialer := func(ctx context.Context, _, address string) (net.Conn, error) {
		for i := range w.masters {
			if strings.HasPrefix(address, host(i)+":") {
				return dial(ctx, addr(process), w.up[at][i], w.down[at][i], addr(address))
			}
		}
		return nil, fmt.Errorf("fleet: no master at %s", address)
	}
	return quorum.Open(urls, quorum.Majority, append(opts, quorumtest.WithClock(fakeclock.Monotonic()),
		quorum.WithLogger(silent), quorum.WithNodeOptions(node.WithDialer(dialer), node.WithLogger(silent)))...)
}

// found makes the first client of the masters wait until their first quarantine is over.
func (w *world) found() error {
	l, err := w.open(regionA, "founder")
	if err != nil {
		return err
	}
	defer l.Close()
	lock, err := l.Lock(context.Background(), "founding")
	if err != nil {
		return err
	}
	return lock.Unlock(context.Background())
}

// done returns what each master has done.
func (w *world) done() (all []work) {
	for _, m := range w.masters {
		all = append(all, m.done())
	}
	return all
}

var silent = slog.New(slog.DiscardHandler)

// contenderCounts are how many processes contend for a name; there are namesOfEach names of each kind.
var contenderCounts = []int{2, 8, 32}

// people places the processes of a fleet: as many for each master in each region. A few contend for names,
// with contenders from all regions; each other one has a name of its own.
func people(processes, namesOfEach int) (all []*process) {
	add := func(name string, contenders int) {
		id := len(all)
		at := masterRegions[id%len(masterRegions)]
		all = append(all, &process{id: id, class: class{at, contenders}, name: name,
			random: rand.New(rand.NewPCG(uint64(id), 1))})
	}
	for _, contenders := range contenderCounts {
		for i := range namesOfEach {
			for range contenders {
				add(fmt.Sprintf("wanted by %d, number %d", contenders, i), contenders)
			}
		}
	}
	for len(all) < processes {
		add(fmt.Sprintf("wanted by process %d", len(all)), 1)
	}
	return all
}

// start opens the lockers, one every millisecond, and lets the processes run. A connection begins with all
// scripts: thousands at once would keep the masters busy for longer than a process waits.
func (f *fleet) start(all []*process) error {
	errs := make([]error, len(all))
	var opening sync.WaitGroup
	for i, p := range all {
		opening.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			p.locker, errs[i] = f.world.open(p.class.at, fmt.Sprintf("process%d:1", p.id))
		})
	}
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	f.all = all
	for _, p := range all {
		f.running.Go(func() { f.run(p) })
	}
	return nil
}
