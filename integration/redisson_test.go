package integration_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// peer is another implementation of the wire format that the library shares with Redisson, on one
// master. It is written from docs/design.md §4.2 alone and calls nothing of the library, which
// could otherwise agree with itself about a mistake.
type peer struct {
	t      *testing.T
	master *redistest.Master
}

const (
	peerOwner = "8743c9c0-0795-4907-87fd-6c719a6b4586:17" // "<uuid>:<thread>"
	peerLease = 30 * time.Second

	// peerEnter replies with the owner's depth, and with the milliseconds until the lock expires.
	// The depth is 0 for an owner that is refused.
	peerEnter = `
		local lock, owner, lease = KEYS[1], ARGV[1], ARGV[2]
		local others = redis.call('HLEN', lock) - redis.call('HEXISTS', lock, owner)
		local depth = 0
		if others == 0 then
			depth = redis.call('HINCRBY', lock, owner, 1)
			redis.call('PEXPIRE', lock, lease)
		end
		return {depth, redis.call('PTTL', lock)}`

	// peerLeave replies with the depth that is left, or with -1 for an owner that does not hold the
	// lock.
	peerLeave = `
		local lock, owner, channel = KEYS[1], ARGV[1], ARGV[2]
		local depth = tonumber(redis.call('HGET', lock, owner) or 0)
		if depth > 1 then
			return redis.call('HINCRBY', lock, owner, -1)
		elseif depth == 1 then
			redis.call('DEL', lock)
			redis.call('PUBLISH', channel, '0')
		end
		return depth - 1`
)

func peersOn(t *testing.T, f *redistest.Fleet) []peer {
	var all []peer
	for _, m := range f.Masters {
		all = append(all, peer{t, m})
	}
	return all
}

func peerChannel(name string) string { return "redisson_lock__channel:{" + name + "}" }

// Lock enters the lock once more, without waiting. It returns the depth, 0 when refused, and the
// time until the lock expires.
func (p peer) Lock(name string) (depth int, left time.Duration) {
	p.t.Helper()
	reply, err := redis.Ints(do(p.t, p.master, "EVAL", peerEnter, 1, name, peerOwner, peerLease.Milliseconds()), nil)
	must(p.t, err)
	return reply[0], time.Duration(reply[1]) * time.Millisecond
}

// Unlock leaves the lock once, and returns the depth that is left.
func (p peer) Unlock(name string) (depth int) {
	p.t.Helper()
	depth, err := redis.Int(do(p.t, p.master, "EVAL", peerLeave, 1, name, peerOwner, peerChannel(name)), nil)
	must(p.t, err)
	testkit.Require(p.t, depth >= 0, "the peer does not hold %s on %s", name, p.master.Addr())
	return depth
}

// Wait subscribes to the releases of a name. The function that it returns blocks until one is
// published, at most for our patience, and returns its payload.
func (p peer) Wait(name string) (payload func() string) {
	p.t.Helper()
	c, err := redis.Dial("tcp", p.master.Addr(), redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience))
	must(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	channel := redis.PubSubConn{Conn: c}
	must(p.t, channel.Subscribe(peerChannel(name)))
	got, ok := channel.Receive().(redis.Subscription)
	testkit.Require(p.t, ok, "the peer cannot subscribe: %v", got)
	return func() string {
		p.t.Helper()
		got := channel.Receive()
		message, ok := got.(redis.Message)
		testkit.Require(p.t, ok, "the peer on %s waits for a release and gets %v", p.master.Addr(), got)
		return string(message.Data)
	}
}

func TestARedissonReleaseWakesUs(t *testing.T) {
	f := fleet(t, 3)
	peers := peersOn(t, f)
	for _, p := range peers {
		for want := 1; want <= 2; want++ {
			depth, left := p.Lock("k")
			testkit.Require(t, depth == want, "the peer enters: depth %d, want %d; %v left", depth, want, left)
		}
	}
	// It polls so seldom that only a message, or the end of a lease, can wake it in time.
	var attempts atomic.Int32
	counts := quorum.Hooks{Attempt: func(context.Context, quorum.AttemptEvent) { attempts.Add(1) }}
	ours := open(t, f, redlock.Open, quorum.WithRetry(time.Minute, time.Minute), quorum.WithHooks(counts))
	var held *quorum.Lock
	returned := make(chan error, 1)
	go func() {
		var err error
		held, err = ours.Lock(t.Context(), "k")
		returned <- err
	}()
	for _, p := range peers {
		eventually(t, "our Lock has subscribed", func() bool {
			counts := testkit.Got(redis.IntMap(do(t, p.master, "PUBSUB", "NUMSUB", peerChannel("k")), nil))(t)
			return counts[peerChannel("k")] == 1
		})
	}
	eventually(t, "the attempt that follows", func() bool { return attempts.Load() >= 2 })
	for _, p := range peers {
		depth := p.Unlock("k")
		testkit.Require(t, depth == 1, "the peer leaves the first of two depths: depth %d", depth)
	}
	testkit.Require(t, len(returned) == 0, "the peer is still in, and our Lock has returned")
	took(t, "to wake our Lock", 300*time.Millisecond, func() { // far below every poll, on a busy machine
		for _, p := range peers {
			p.Unlock("k")
		}
		must(t, <-returned)
	})
	unlock(t, held)
}

// A Java waiter subscribes, tries again, and waits for a message on each master's channel: its
// payload must be 0.
func TestOurReleaseWakesARedissonWaiter(t *testing.T) {
	f := fleet(t, 3)
	held := lock(t, open(t, f, redlock.Open), "k")
	grantedByAll(t, f.Masters, "k")
	peers := peersOn(t, f)
	var payloads []func() string
	for _, p := range peers {
		payloads = append(payloads, p.Wait("k"))
		depth, left := p.Lock("k")
		testkit.Require(t, depth == 0 && left > 0, "we hold the lock, and the peer is told: depth %d, %v left", depth, left)
	}
	unlock(t, held)
	for i, p := range peers {
		payload := payloads[i]()
		testkit.Check(t, payload == "0", "the release on %s is published as %q", p.master.Addr(), payload)
		depth, left := p.Lock("k")
		testkit.Check(t, depth == 1, "the peer is woken and refused by %s: depth %d, %v left", p.master.Addr(), depth, left)
	}
	for _, p := range peers {
		p.Unlock("k")
	}
	noLocks(t, f.Masters)
}

// docs/from-redisson.md warns of Redisson's read-write locks: they look for the field mode alone, and
// enter alongside our holder, who does not notice. We do not enter alongside theirs, and do not wait for it.
func TestARedissonReadWriteLockAtOurName(t *testing.T) {
	f := fleet(t, 3)
	l := open(t, f, redlock.Open)
	held := lock(t, l, "k")
	grantedByAll(t, f.Masters, "k")
	for _, m := range f.Masters {
		do(t, m, "HSET", "k", "mode", "read", peerOwner, 1)
	}
	err := held.Extend(t.Context(), peerLease)
	testkit.Check(t, err == nil && held.Valid(), "our renewal next to a read lock: %v, valid %v", err, held.Valid())
	unlock(t, held)
	_, err = l.Lock(t.Context(), "k")
	testkit.Check(t, errors.Is(err, quorum.ErrPermanent), "Lock at a read lock's name: %v, want ErrPermanent", err)
}
