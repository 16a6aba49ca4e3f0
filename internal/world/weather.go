package world

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Weather is how the network of a world that is not quiet carries data. What it does with data depends only on the seed, the
// connection and the instant: goroutines run in any order, so data of one instant may be sent at once or in pieces, and both
// must have the same result.
type Weather struct {
	Latency time.Duration // of one direction: half of it, and as much again on average
	Gather  time.Duration // how long a process' write takes: requests gather meanwhile

	// Until [World.Heal]:
	Slow    float64 // the share of what is sent that takes up to Slowest more
	Slowest time.Duration
	Loss    float64 // the share of what is sent that is lost with its connection
}

// way is one direction between a process and a master.
type way struct {
	world           *World
	process, master int
	up              bool // to the master
	far             time.Duration
	key             uint64 // of its random numbers
	slot            Slot   // in which its data arrives
}

func (w *World) way(process, master, number int, up bool) way {
	d := way{world: w, process: process, master: master, up: up}
	if w.weather != nil {
		d.key = rand.New(w.Source("way", process, master, number, up)).Uint64()
		d.slot = waySlot(process, master, number, up)
	}
	return d
}

// carry decides when data sent now arrives, or whether the connection dies instead.
func (d *way) carry() (at time.Time, lost bool) {
	now := time.Now()
	sky := d.world.weather
	if sky == nil {
		return now.Add(d.far), false
	}
	rng := d.rng(now)
	usual := min(rng.ExpFloat64(), 2) // well below every timeout
	delay := d.far + sky.Latency/2 + time.Duration(float64(sky.Latency)*usual)
	if !d.world.calm.Load() {
		if rng.Float64() < sky.Slow {
			delay += time.Duration(rng.Float64() * float64(sky.Slowest))
		}
		lost = rng.Float64() < sky.Loss
	}
	return d.slot.From(now.Add(delay)), lost
}

// late is how long data takes that was kept back until now.
func (d *way) late(now time.Time) time.Duration {
	if d.world.weather == nil {
		return 0
	}
	return time.Duration(d.rng(now).ExpFloat64() * float64(d.world.weather.Latency))
}

func (d *way) rng(now time.Time) *rand.Rand {
	return rand.New(rand.NewPCG(d.key, uint64(now.Sub(d.world.start))))
}

// Source returns the random numbers for one purpose. They do not depend on draws for other purposes.
func (w *World) Source(purpose string, keys ...any) rand.Source {
	return Source(w.seed, purpose, keys...)
}

// Source returns the random numbers of a seed for one purpose.
func Source(seed uint64, purpose string, keys ...any) rand.Source {
	h := fnv.New64a()
	fmt.Fprint(h, purpose, keys)
	return rand.NewPCG(seed, h.Sum64())
}

// window is a time in which nothing arrives.
type window struct {
	process, master int // everyone for all
	up, down        bool
}

// everyone is the process of a window that hits all processes, or the master of one that hits all masters.
const everyone = -1

func (v window) hits(d *way) bool {
	return (v.process == everyone || v.process == d.process) && (v.master == everyone || v.master == d.master) &&
		(d.up && v.up || !d.up && v.down)
}

// shut lets nothing arrive in a window, which begins now, until end.
func (w *World) shut(v window) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := &v
	w.windows = append(w.windows, at)
	w.eachLocked(v, (*stream).block)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.windows = slices.DeleteFunc(w.windows, func(other *window) bool { return other == at })
		w.eachLocked(v, (*stream).unblock)
	}
}

// eachLocked calls do for the streams that a window hits.
func (w *World) eachLocked(v window, do func(*stream)) {
	for _, c := range w.conns {
		for _, s := range []*stream{c.in, c.out} {
			if v.hits(&s.way) {
				do(s)
			}
		}
	}
}
