package sim

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts"
)

var handOverSeeds = flag.Int("sim.handovers", 50, "how many seeds TestHandOvers runs, from 1 on")

// The same must hold if locks are handed over, under every fault. A ticket, which several flows get,
// works once.
func TestHandOvers(t *testing.T) {
	judgeSeeds(t, *handOverSeeds, newHandOverPlan).want(t, 50, map[string]float64{"handed over": 3, "taken over": 2,
		"passed on": 1, "not handed over": 0.2, "not taken over yet": 0.1, "first holder fenced off": 0.5})
}

// newHandOverPlan makes a plan in which locks are handed over.
func newHandOverPlan(seed uint64) *plan {
	p := newPlan(seed)
	p.test, p.handsOver = "TestHandOvers", true
	p.bound += time.Duration(p.clients*p.flows) * p.lease // each may hand over last, and nobody takes over
	return p
}

// handed is a lock that was handed over.
type handed struct {
	ticket string
	names  []string
	token  uint64
	at     time.Time
	tries  int
	taken  bool
}

// triesEach is how often a ticket is tried, by any flow.
const triesEach = 3

// nextTicket returns the ticket that is to be tried next, nil for none.
func (w *run) nextTicket() (h *handed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tickets) == 0 {
		return nil
	}
	h = w.tickets[0]
	if h.tries++; h.tries == triesEach {
		w.tickets = w.tickets[1:]
	}
	return h
}

// isTriedByOthers reports whether more than one attempt to take over has begun. Two at once may refuse each other.
func (w *run) isTriedByOthers(h *handed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.tries > 1
}

// end unlocks the lock, or hands it over.
func (f *flow) end(ctx context.Context, r *record) error {
	if !f.world.plan.handsOver || f.rng.IntN(2) == 0 {
		return r.unlock(ctx)
	}
	ticket, err := r.handOver(ctx)
	if err != nil {
		f.turn()
		f.world.count("not handed over")
		if !expected(err) && !errors.Is(err, quorum.ErrClosed) {
			f.world.fail("client %d: hand over %s: %v", f.machine.id, r.lock.Owner(), err)
		}
		return r.unlock(ctx)
	}
	w, h := f.world, &handed{ticket: ticket, names: r.lock.Names(), token: r.lock.Token(), at: time.Now()}
	w.count("handed over")
	w.mu.Lock()
	w.tickets = append(w.tickets, h)
	w.mu.Unlock()
	f.turn()
	if f.rng.IntN(2) == 0 { // it still writes
		f.rest(0.5)
		f.work(r)
	}
	return nil
}

// handOver hands the lock over and writes its history, or returns an error and leaves it as it was.
func (r *record) handOver(ctx context.Context) (string, error) {
	w := r.client.world
	w.trace.add("client %d  %s: hand over", r.client.id, r.lock.Owner())
	ticket, err := r.lock.HandOver(ctx)
	w.trace.add("client %d  %s: handed over, %v", r.client.id, r.lock.Owner(), err)
	if err != nil {
		return "", err
	}
	if r.lock.Valid() || r.lock.Context().Err() == nil || r.lock.Err() != quorum.ErrHandedOver {
		w.fail("client %d: %s is handed over and valid: %v", r.client.id, r.lock.Owner(), r.lock.Err())
	}
	now := time.Now() // the lock was held until then
	r.end(now, now)
	return ticket, nil
}

// takeOver tries a ticket, if there is one. It reports whether there was.
func (f *flow) takeOver(locker *quorum.Locker, c *client, limit time.Duration) bool {
	w := f.world
	h := w.nextTicket()
	if h == nil {
		return false
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	certain, call := w.lists.certain(c), time.Now()
	got, err := locker.TakeOver(ctx, h.ticket)
	if err != nil {
		if !errors.Is(err, quorum.ErrLost) {
			w.count("not taken over yet")
		} else {
			w.count("passed on")
			prompt := time.Since(h.at) < w.plan.lease/8
			if prompt && !w.isTriedByOthers(h) && w.plan.calm() && w.plan.fixed == 0 {
				w.fail("client %d: without any fault, a lock is lost %v after it was handed over: %v", c.id, time.Since(h.at), err)
			}
		}
		w.refused(c, h.names, err, certain)
		f.turn()
		return true
	}
	w.mu.Lock()
	again := h.taken
	h.taken = true
	w.mu.Unlock()
	w.count("taken over")
	w.trace.add("client %d  %s: has taken over %v, token %d after %d", c.id, got.Owner(), h.names, got.Token(), h.token)
	if again || got.Token() <= h.token {
		w.fail("client %d: %s took over with token %d after %d; somebody else before: %v", c.id, got.Owner(), got.Token(), h.token, again)
	}
	r := c.follow(got, call, time.Now())
	f.turn()
	f.hold(r, locker)
	if err := w.registers[h.names[0]].Write(h.token, "late"); err != nil {
		w.count("first holder fenced off")
	}
	f.release(c, r, limit)
	return true
}

var semaphoreSeeds = flag.Int("sim.semaphores", 40, "how many seeds TestSemaphores runs, from 1 on")

// semaphoreName is the name of the semaphore in the plans that have one.
const semaphoreName = "s"

// The same must hold for each slot of a semaphore. A slot's number is below the number of slots that its
// holder said, so there are never more holders than slots.
func TestSemaphores(t *testing.T) {
	judgeSeeds(t, *semaphoreSeeds, newSemaphorePlan).want(t, 40, map[string]float64{"acquired": 10, "several slots": 1,
		"fewer slots said": 0.5, "held": 0.5, "lost": 0.1, "crash": 0.5, "kill": 0.2})
}

// takesSlots returns a call for one or two slots of the plan's semaphore, with or without waiting. Some
// calls say a smaller number of slots.
func (f *flow) takesSlots(locker *quorum.Locker) func(context.Context, ...string) (*quorum.Lock, error) {
	said := f.world.plan.slots
	if said > 1 && f.rng.IntN(6) == 0 {
		said--
		f.world.count("fewer slots said")
	}
	k := 1
	if said > 1 && f.rng.IntN(4) == 0 {
		k = 2
	}
	s := semaphore.New(locker, semaphoreName, said)
	acquire := s.Acquire
	if f.rng.IntN(4) == 0 {
		acquire = s.TryAcquire
	}
	return func(ctx context.Context, _ ...string) (*quorum.Lock, error) {
		lock, err := acquire(ctx, k)
		if err != nil {
			return nil, err
		}
		if k > 1 {
			f.world.count("several slots")
		}
		if all := lock.Slots(); len(all) != k || all[0] < 0 || all[k-1] >= said || k > 1 && all[0] == all[1] {
			f.world.fail("client %d: %s has slots %v, where %d of %d were asked for", f.machine.id, lock.Owner(), all, k, said)
		}
		return lock, nil
	}
}

// keysOf returns the names that the lock is judged by: of a slot its key.
func keysOf(lock *quorum.Lock) []string {
	if lock.Slots() == nil {
		return lock.Names()
	}
	return scripts.SlotNames(lock.Names()[0], lock.Slots())
}
