package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// HoldElsewhere locks the names, all or none, as another process would. It renews the lock until
// Unlock, [Masters.Lose] or the end of the test; [Masters.FastForward] ends it, too. The lock has a
// token, as any other: a resource that has seen it must refuse a lower one. [quorum.Lock.HandOver] makes
// a ticket for the service's [quorum.Locker.TakeOver].
//
// It waits for a holder to release, but fails the test after 5 s. It needs a majority of the
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
// ([quorum.Locker.Semaphore]), at most 64. With n of n, none is left for the service.
func (m *Masters) HoldSlotsElsewhere(semaphore string, k, n int) *quorum.Lock {
	m.tb.Helper()
	return m.holdElsewhere(func(ctx context.Context, elsewhere *quorum.Locker) (*quorum.Lock, error) {
		return elsewhere.Semaphore(semaphore, n).AcquireN(ctx, k)
	})
}

func (m *Masters) holdElsewhere(acquire func(context.Context, *quorum.Locker) (*quorum.Lock, error)) *quorum.Lock {
	m.tb.Helper()
	elsewhere := m.lockerElsewhere()
	ctx, cancel := context.WithCancel(context.Background())
	m.tb.Cleanup(cancel) // not on return: ctx is the parent of the lock's context
	timer := time.AfterFunc(m.patience, cancel)
	lock, err := acquire(ctx, elsewhere)
	if err == nil && !timer.Stop() {
		err = context.Canceled
	}
	if err != nil {
		m.tb.Fatalf("quorumtest: to hold elsewhere took more than %v, or cannot be: %v", m.patience, err)
	}
	return lock
}

func (m *Masters) lockerElsewhere() *quorum.Locker {
	m.tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.elsewhere == nil {
		// Not redlock's rule, which refuses an even number of masters: multilock may have it.
		m.elsewhere = m.open(func(nodes int) (int, error) { return nodes/2 + 1, nil }, nil)
	}
	return m.elsewhere
}

// otherOwner stands on the masters while [Masters.Lose] takes a lock from its holder.
const otherOwner = "quorumtest:0"

// The scripts reply with the number of names at which they found the owner.

// takeScript puts another owner in place of one, and keeps the lease. The names are not free in
// between, since the holder must end before anybody else begins.
const takeScript = `
local taken = 0
for _, name in ipairs(KEYS) do
  if redis.call('TYPE', name).ok == 'zset' then -- readers
    local ends = redis.call('ZSCORE', name, 'quorumlock:reader:' .. ARGV[1])
    if ends then
      redis.call('ZADD', name, ends, 'quorumlock:reader:' .. ARGV[2])
      redis.call('ZREM', name, 'quorumlock:reader:' .. ARGV[1])
      taken = taken + 1
    end
  elseif redis.call('HEXISTS', name, ARGV[1]) == 1 then
    redis.call('HSET', name, ARGV[2], '1')
    redis.call('HDEL', name, ARGV[1])
    taken = taken + 1
  end
end
return taken`

// freeScript releases the names for an owner, and wakes the waiters.
const freeScript = `
local freed = 0
for i, name in ipairs(KEYS) do
  local isRead = redis.call('TYPE', name).ok == 'zset'
  local member = isRead and 'quorumlock:reader:' .. ARGV[1] or ARGV[1]
  if redis.call(isRead and 'ZREM' or 'HDEL', name, member) == 1 then
    if redis.call('EXISTS', name) == 0 then
      redis.call('PUBLISH', ARGV[i + 1], '0')
    end
    freed = freed + 1
  end
end
return freed`

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
	if err := m.lose(lock); err != nil {
		m.tb.Fatalf("quorumtest: lose %q: %v", lock.Names(), err)
	}
}

func (m *Masters) lose(lock *quorum.Lock) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := lock.Err(); err != nil {
		return fmt.Errorf("it is not held: %w", err)
	}
	if err := m.takeLocked(lock); err != nil {
		return err
	}
	args := []any{otherOwner}
	for _, key := range keysOf(lock) {
		args = append(args, scripts.Channel(key))
	}
	_, err := m.evalLocked(freeScript, keysOf(lock), args...)
	return err
}

// keysOf returns the lock's keys on the masters.
func keysOf(lock *quorum.Lock) []string {
	if lock.Slot() < 0 {
		return lock.Names()
	}
	return scripts.SlotNames(lock.Names()[0], lock.Slots())
}

// takeLocked takes the lock on the masters, and has its handle ask them, until it is lost. Once may
// not be enough: a grant may have been on its way to a master, and not all masters need to have
// answered when Extend returns.
func (m *Masters) takeLocked(lock *quorum.Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), m.patience)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	everTaken := false
	for {
		taken, err := m.evalLocked(takeScript, keysOf(lock), lock.Owner(), otherOwner)
		if err != nil {
			return err
		}
		everTaken = everTaken || taken > 0
		if !everTaken {
			return errors.New("no running master has it")
		}
		err = lock.Extend(ctx, 10*time.Millisecond) // a lease is only raised, so the least will do
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

// evalLocked runs a script on all masters that run, and returns the sum of the replies.
func (m *Masters) evalLocked(script string, names []string, args ...any) (int64, error) {
	command := []any{"EVAL", script, len(names)}
	for _, name := range names {
		command = append(command, name)
	}
	command = append(command, args...)
	sum := int64(0)
	for i, master := range m.fleet.Masters {
		if m.stopped[i] {
			continue
		}
		reply, err := master.Do(command...)
		if err != nil {
			return 0, err
		}
		sum += reply.(int64)
	}
	return sum, nil
}
