package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/scripts"
)

// HoldElsewhere locks the names, all or none, as another process would. It renews the lock until
// Unlock, [Masters.Lose] or the end of the test; [Masters.FastForward] ends it, too. The lock has a
// token, as any other: a resource that has seen it must refuse a lower one. [quorum.Lock.HandOver] makes
// a ticket for the service's [quorum.Locker.TakeOver].
//
// It waits for a holder to release, and fails the test after 20 s. It needs a majority of the
// masters to run, whatever rule the service has.
func (m *Masters) HoldElsewhere(names ...string) *quorum.Lock {
	m.tb.Helper()
	return m.holdElsewhere(func(ctx context.Context, elsewhere *quorum.Locker) (*quorum.Lock, error) {
		return elsewhere.Lock(ctx, names...)
	})
}

// ReadElsewhere is HoldElsewhere as a reader of a read-write lock ([quorum.RWLock]).
func (m *Masters) ReadElsewhere(name string) *quorum.Lock {
	m.tb.Helper()
	return m.holdElsewhere(func(ctx context.Context, elsewhere *quorum.Locker) (*quorum.Lock, error) {
		return elsewhere.RWLock(name).RLock(ctx)
	})
}

// HoldSlotsElsewhere is [Masters.HoldElsewhere] of k slots of a semaphore with n slots
// ([semaphore.New]), at most 64. With n of n, none is left for the service.
func (m *Masters) HoldSlotsElsewhere(name string, k, n int) *quorum.Lock {
	m.tb.Helper()
	return m.holdElsewhere(func(ctx context.Context, elsewhere *quorum.Locker) (*quorum.Lock, error) {
		return semaphore.New(elsewhere, name, n).Acquire(ctx, k)
	})
}

func (m *Masters) holdElsewhere(acquire func(context.Context, *quorum.Locker) (*quorum.Lock, error)) *quorum.Lock {
	m.tb.Helper()
	elsewhere := m.lockerElsewhere()
	ctx, cancel := context.WithCancel(context.Background())
	m.tb.Cleanup(cancel) // not on return: ctx is the parent of the lock's context
	timer := time.AfterFunc(patience, cancel)
	lock, err := acquire(ctx, elsewhere)
	if err == nil && !timer.Stop() {
		err = context.Canceled
	}
	if err != nil {
		m.tb.Fatalf("quorumtest: to hold elsewhere took more than %v, or cannot be: %v", patience, err)
	}
	return lock
}

func (m *Masters) lockerElsewhere() *quorum.Locker {
	m.tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.elsewhere == nil {
		// Not redlock's rule, which refuses an even number of masters: multilock may have it.
		m.elsewhere = m.open(func(nodes int) (int, error) { return quorate.Majority(nodes).Need, nil }, nil)
	}
	return m.elsewhere
}

// otherOwner stands on the masters while [Masters.Lose] takes a lock from its holder.
const otherOwner = "quorumtest:0"

// Lose makes a held lock lost at once, as if the masters had given it to another holder. When
// Lose returns, the lock's context has ended with [quorum.ErrLost], and the names are free. All
// handles of the lock are lost with it; other locks are not.
//
// The lock may be of any locker over these masters, whatever its clock. Code that runs with the
// lock's context finds it by [quorum.FromContext]; a test without access to that context takes it
// from the Acquired hook ([quorum.WithHooks]).
//
// Lose fails the test if the lock is nil, or not held, or not on these masters, or if too many
// masters are stopped for the holder to learn of it in time.
func (m *Masters) Lose(lock *quorum.Lock) {
	m.tb.Helper()
	if lock == nil {
		m.tb.Fatalf("quorumtest: lose: the lock is nil; FromContext finds it by the names that it was locked with")
	}
	m.checkBubble()
	if err := m.lose(lock); err != nil {
		m.tb.Fatalf("quorumtest: lose %q: %v", lock.Names(), err)
	}
}

func (m *Masters) lose(lock *quorum.Lock) error {
	if err := lock.Err(); err != nil {
		return fmt.Errorf("it is not held: %w", err)
	}
	if err := m.take(lock); err != nil {
		return err
	}
	for i, master := range m.world.Masters {
		if m.world.Reachable(i) {
			master.Free(m.keysOf(lock), otherOwner, scripts.MarkerKeyOf(m.members[i]))
		}
	}
	return nil
}

// keysOf returns the lock's keys on the masters.
func (m *Masters) keysOf(lock *quorum.Lock) []string {
	keys := lock.Names()
	if lock.Slots() != nil {
		keys = scripts.SlotNames(lock.Names()[0], lock.Slots())
	}
	for i, name := range keys {
		keys[i] = scripts.LockKeyOf(m.members[0], name)
	}
	return keys
}

// take takes the lock on the masters, and has its handle ask them, until it is lost. Once may
// not be enough: a grant may have been on its way to a master, and not all masters need to have
// answered when Extend returns.
func (m *Masters) take(lock *quorum.Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	everTaken := false
	for {
		for i, master := range m.world.Masters {
			if m.world.Reachable(i) && master.Take(m.keysOf(lock), lock.Owner(), otherOwner) > 0 {
				everTaken = true
			}
		}
		if !everTaken {
			return errors.New("no running master has it")
		}
		err := lock.Extend(ctx, 10*time.Millisecond) // a lease is only raised, so the least will do
		switch ended := lock.Err(); {
		case errors.Is(ended, quorum.ErrLost):
			<-lock.Context().Done()
			return nil
		case ended != nil:
			return fmt.Errorf("it ended in another way: %w", ended)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("too few masters reach the holder: %w", err)
		}
	}
}
