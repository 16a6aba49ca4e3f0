package sim

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/integration/history"
	"github.com/quorumlock/quorumlock/quorum"
)

// record follows one lock, from when Lock returned it, for the history.
type record struct {
	client    *client
	lock      *quorum.Lock
	call, ret time.Time

	// Under the client's mutex.
	deadline time.Time // up to which Valid would say that it holds, in the bubble's time, by what is known
	ended    time.Time // when the context ended; zero when it has not
	revived  bool
	stop     func() bool
}

// follow begins a record.
func (c *client) follow(lock *quorum.Lock, call, ret time.Time) *record {
	r := &record{client: c, lock: lock, call: call, ret: ret, deadline: ret.Add(1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[r] = struct{}{}
	r.lookLocked()
	r.stop = context.AfterFunc(lock.Context(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.ended.IsZero() {
			r.ended = time.Now()
		}
		r.lookLocked()
		c.world.trace.add("client %d  %s: context ended: %v", c.id, lock.Owner(), context.Cause(lock.Context()))
	})
	return r
}

// lookLocked brings the deadline up to date. Nothing but what a client hears moves it, so looking each time before it hears of
// anything and after, and once at the end, misses none. Once it has passed, nothing may bring it back.
//
// A client's clock runs at a rate of its own, so what is left until the deadline by that clock is converted. The bubble's time
// stands still while this runs: the result is exact.
func (r *record) lookLocked() {
	now := time.Now()
	left := r.lock.Deadline().Sub(now)
	believed := now.Before(r.deadline)
	switch {
	case left > 0:
		if !believed && !r.revived {
			r.client.world.fail("client %d: %s is held again, %v after its deadline", r.client.id, r.lock.Owner(), now.Sub(r.deadline))
			r.revived = true
		}
		r.deadline = now.Add(time.Duration(float64(left) / r.client.rate))
	case believed: // what it has just heard ended it
		r.deadline = now
	}
}

// heard is called before the process hears of anything. It looks at once, and again when that has been dealt with: the bubble's
// time does not move on before.
func (c *client) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookLocked()
	if !c.looking && len(c.live) > 0 {
		c.looking = true
		time.AfterFunc(time.Nanosecond, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.looking = false
			c.lookLocked()
		})
	}
}

func (c *client) lookLocked() {
	for r := range c.live {
		r.lookLocked()
	}
}

func (r *record) until() time.Time {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.deadline
}

// valid tells whether the holder may believe that it holds.
func (r *record) valid() bool {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.lock.Valid() && r.ended.IsZero()
}

// unlock unlocks and writes the history of the lock.
func (r *record) unlock(ctx context.Context) error {
	c := r.client
	c.mu.Lock()
	r.lookLocked()
	called := time.Now()
	c.mu.Unlock()
	c.world.trace.add("client %d  %s: unlock", c.id, r.lock.Owner())

	err := r.lock.Unlock(ctx)
	returned := time.Now()
	r.stop()
	c.mu.Lock()
	delete(c.live, r)
	ended, deadline := r.ended, r.deadline
	c.mu.Unlock()
	c.world.trace.add("client %d  %s: unlocked, %v", c.id, r.lock.Owner(), err)

	acquired := history.Event{Kind: history.Acquired, Level: 1, Call: r.call.UnixNano(), Return: r.ret.UnixNano(),
		Token: r.lock.Token(), Deadline: deadline.UnixNano()}
	released := history.Event{Kind: history.Released, Level: 1, Call: called.UnixNano(), Return: returned.UnixNano()}
	events := []history.Event{acquired, released}
	if !ended.IsZero() && ended.Before(called) {
		events = append(events, history.Event{Kind: history.Lost, Level: 1, Call: ended.UnixNano(), Return: ended.UnixNano()})
	}
	r.tell(events...)
	return err
}

// tell adds events of the lock's owner to the history, for each of its names.
func (r *record) tell(events ...history.Event) {
	for _, e := range events {
		for _, name := range r.lock.Names() {
			e.Client, e.Owner, e.Name = r.client.id, r.lock.Owner(), name
			r.client.world.log.Add(e)
		}
	}
}
