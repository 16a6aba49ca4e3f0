package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/quorum"
)

// holds is how long a process holds a lock.
const holds = 10 * time.Millisecond

// contenderPause is the mean time between two locks of a process that contends.
const contenderPause = 50 * time.Millisecond

// fleet is the processes. Each has a locker of its own and one flow, which pauses, locks, holds, unlocks,
// and starts again: a closed load. The fewer answers, the fewer calls.
type fleet struct {
	world   *world
	all     []*process
	samples samples
	log     *history.Log // nil where there are too many locks to judge
	running sync.WaitGroup

	mu      sync.Mutex
	load    load
	failed  []string
	unclear int // calls of Unlock that masters did not confirm
}

// load is what the processes do until it is over.
type load struct {
	pause time.Duration // the mean time between two locks of a process, but a contender
	ended bool          // there is nothing more to do
	over  chan struct{}
}

type process struct {
	id     int
	class  class
	name   string // that it locks
	random *rand.Rand
	locker *quorum.Locker
}

// setLoad ends the load before.
func (f *fleet) setLoad(l load) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.load.over != nil {
		close(f.load.over)
	}
	l.over = make(chan struct{})
	f.load = l
}

// attempts returns how many attempts the processes of each class have made.
func (f *fleet) attempts() map[class]int {
	made := map[class]int{}
	for _, p := range f.all {
		for _, n := range p.locker.Stats().Attempts {
			made[p.class] += int(n)
		}
	}
	return made
}

func (f *fleet) present() load {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load
}

func (f *fleet) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, fmt.Sprintf(format, args...))
}

// run is the life of a process.
func (f *fleet) run(p *process) {
	defer p.locker.Close()
	for {
		now := f.present()
		if now.ended {
			return
		}
		mean := now.pause
		if p.class.contenders > 1 {
			mean = contenderPause
		}
		pause := time.NewTimer(time.Duration(p.random.ExpFloat64() * float64(mean)))
		select {
		case <-pause.C:
			f.lock(p)
		case <-now.over: // an exponential pause has no memory: it may begin anew
			pause.Stop()
		}
	}
}

// lock is one lock, from Lock to Unlock.
func (f *fleet) lock(p *process) {
	ctx := context.Background()
	called := time.Now()
	lock, err := p.locker.Lock(ctx, p.name)
	if err != nil {
		f.fail("process %d at %v: %v", p.id, p.class.at, err)
		return
	}
	returned := time.Now()
	f.samples.add(p.class, returned.Sub(called))
	time.Sleep(holds)
	deadline, unlocks := lock.Deadline(), time.Now()
	if err := lock.Unlock(ctx); errors.Is(err, quorum.ErrUnavailable) {
		f.mu.Lock()
		f.unclear++
		f.mu.Unlock()
	} else if err != nil {
		f.fail("process %d at %v: %v", p.id, p.class.at, err)
	}
	if f.log == nil {
		return
	}
	e := history.Event{Client: p.id, Name: p.name, Owner: lock.Owner(), Level: 1, Token: lock.Token()}
	e.Kind, e.Call, e.Return, e.Deadline = history.Acquired, called.UnixNano(), returned.UnixNano(), deadline.UnixNano()
	f.log.Add(e)
	e.Kind, e.Call, e.Return, e.Deadline = history.Released, unlocks.UnixNano(), time.Now().UnixNano(), 0
	f.log.Add(e)
}
