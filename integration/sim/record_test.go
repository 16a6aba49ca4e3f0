package sim

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/quorum"
)

// record follows one lock for the history, from the return of Lock.
type record struct {
	client    *client
	lock      *quorum.Lock
	call, ret time.Time

	// The client's mutex guards the rest.
	deadline time.Time // the last known instant at which Valid reports true, in the bubble's time
	ended    time.Time // when the context ended; zero before
	revived  bool
	stop     func() bool
	lowered  []history.Event // its downgrade
}

// follow begins a record.
func (c *client) follow(lock *quorum.Lock, call, ret time.Time) *record {
	r := &record{client: c, lock: lock, call: call, ret: ret, deadline: ret.Add(1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[r] = struct{}{}
	r.refreshLocked()
	r.stop = context.AfterFunc(lock.Context(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		r.ended = time.Now()
		r.refreshLocked()
		c.world.trace.add("client %d  %s: context ended: %v", c.id, lock.Owner(), context.Cause(lock.Context()))
	})
	return r
}

// refreshLocked updates the deadline. Only data that the client reads moves the deadline, so a
// refresh before and after each read, and one at the end, misses no change. After the deadline
// nothing may revive the lock.
//
// A client's clock has a rate of its own, so the time left by that clock is converted. The bubble's
// time stands still during the conversion, so it is exact.
func (r *record) refreshLocked() {
	now := time.Now()
	left := r.lock.Deadline().Sub(now)
	believed := now.Before(r.deadline)
	switch {
	case left > 0:
		if !believed && !r.revived {
			r.client.world.fail("client %d: %s is held again, %v after its deadline", r.client.id, r.lock.Owner(),
				now.Sub(r.deadline))
			r.revived = true
		}
		r.deadline = now.Add(time.Duration(float64(left) / r.client.rate))
	case believed: // the data just read ended it
		r.deadline = now
	}
}

// received is called before the process sees the data of a read. It refreshes at once, and again
// when the process has dealt with the data: the bubble's time stands still until then.
func (c *client) received() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshLocked()
	if !c.refreshing && len(c.live) > 0 {
		c.refreshing = true
		time.AfterFunc(time.Nanosecond, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.refreshing = false
			c.refreshLocked()
		})
	}
}

func (c *client) refreshLocked() {
	for r := range c.live {
		r.refreshLocked()
	}
}

func (r *record) until() time.Time {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.deadline
}

// valid reports whether the holder may believe that it holds.
func (r *record) valid() bool {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.lock.Valid() && r.ended.IsZero()
}

// unlock unlocks and writes the history of the lock.
func (r *record) unlock(ctx context.Context) error {
	c := r.client
	c.mu.Lock()
	r.refreshLocked()
	called := time.Now()
	c.mu.Unlock()
	c.world.trace.add("client %d  %s: unlock", c.id, r.lock.Owner())

	err := r.lock.Unlock(ctx)
	returned := time.Now()
	c.world.trace.add("client %d  %s: unlocked, %v", c.id, r.lock.Owner(), err)
	r.end(called, returned)
	return err
}

// end writes the history of the lock, which a call has ended.
func (r *record) end(called, returned time.Time) {
	c := r.client
	r.stop()
	c.mu.Lock()
	delete(c.live, r)
	ended, deadline := r.ended, r.deadline
	c.mu.Unlock()
	acquired := history.Event{Kind: history.Acquired, Depth: 1, Call: r.call.UnixNano(), Return: r.ret.UnixNano(),
		Token: r.lock.Token(), Deadline: deadline.UnixNano(), Shared: r.lock.Shared() && r.lowered == nil}
	released := history.Event{Kind: history.Released, Depth: 1, Call: called.UnixNano(), Return: returned.UnixNano()}
	events := append([]history.Event{acquired, released}, r.lowered...)
	if !ended.IsZero() && ended.Before(called) {
		events = append(events, history.Event{Kind: history.Lost, Depth: 1, Call: ended.UnixNano(),
			Return: ended.UnixNano()})
	}
	r.addEvents(events...)
}

// addEvents adds events of the lock's owner to the history, for each of its names.
func (r *record) addEvents(events ...history.Event) {
	w := r.client.world
	for _, e := range events {
		for _, name := range keysOf(r.lock) {
			e.Client, e.Owner, e.Name = r.client.id, r.lock.Owner(), name
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
		}
	}
}
