package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// stormLasts is for how long masters fail at least.
const stormLasts = 3 * time.Second

// Locks of every kind are released while a minority of the masters is killed, frozen, cut off or refuses. The
// masters forget nothing, and no lock outlives its lease: so no lock is lost unless another's release took it.
// When all masters answer again, none has a key, long before a lease ends.
func TestReleasesInAStorm(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " masters"), func(t *testing.T) {
			f := fleet(t, n, "--appendonly", "yes", "--appendfsync", "always")
			s := &storm{t: t, fleet: f, net: proxied(t, f), done: map[string]int{}}
			lockers := []*quorum.Locker{}
			for range 3 {
				lockers = append(lockers, open(t, s.net, redlock.Open, brief, quorum.WithLease(stormLease)))
			}
			s.play(lockers)
			for _, kind := range kinds {
				if s.done[kind] == 0 {
					t.Errorf("no %s was released", kind)
				}
			}
			t.Log(s.done)
			var left []string
			if !poll.Until(patience, func() bool { left = s.left(); return len(left) == 0 }) {
				t.Errorf("%d keys left behind: %q", len(left), left[:min(len(left), 10)])
			}
		})
	}
}

// Processes that do nothing under a lock pass it on while a minority of the masters fails: one holder at a time. When
// all masters answer again they take turns as before, and leave no key and no subscription behind.
func TestTurnsInAStorm(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	s := &storm{t: t, fleet: f, net: proxied(t, f), done: map[string]int{}}
	var working sync.WaitGroup
	var acquired [3]atomic.Int32
	for i := range acquired {
		locker := open(t, s.net, redlock.Open, brief, quorum.WithLease(stormLease))
		working.Go(func() {
			for !s.over.Load() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				held, err := locker.Lock(ctx, "a")
				if s.want(err, quorum.ErrNotAcquired); err == nil {
					s.enter([]int{0}, false)
					acquired[i].Add(1)
					s.leave([]int{0}, false)
					s.want(held.Unlock(ctx), quorum.ErrUnavailable)
				}
				cancel()
			}
		})
	}
	for began := time.Now(); time.Since(began) < stormLasts; {
		s.blow(1)
	}
	before := [3]int32{}
	for i := range acquired {
		before[i] = acquired[i].Load()
	}
	for more := int32(10); more <= 100; more += 10 { // a lock that is left to its lease outlasts patience
		eventually(t, patience, func() bool {
			for i := range acquired {
				if acquired[i].Load() < before[i]+more {
					return false
				}
			}
			return true
		}, fmt.Sprint("each acquires it ", more, " times more"))
	}
	s.over.Store(true)
	working.Wait()
	t.Logf("up to the end of the storm: %v acquisitions", before)
	eventually(t, patience, func() bool { return len(s.left()) == 0 && subscriptions(t, f.Masters, "a") == 0 },
		"no key and no subscription is left")
}

// stormLease is a lease that no lock in a storm outlives, nor a test's patience.
const stormLease = 30 * time.Second

// briefLease is that of a lock that is handed over: its keys stay on masters that the next owner did not reach.
const briefLease = 3 * time.Second

type storm struct {
	t     *testing.T
	fleet *redistest.Fleet
	net   *network
	over  atomic.Bool

	mu   sync.Mutex
	done map[string]int // releases by kind, and errors

	writers, readers [4]atomic.Int32 // of the names
}

// play locks and unlocks until there were some releases of each kind.
func (s *storm) play(lockers []*quorum.Locker) {
	var working sync.WaitGroup
	defer working.Wait()
	defer s.over.Store(true)
	for _, locker := range lockers {
		for range 4 {
			working.Go(func() { s.work(locker) })
		}
	}
	working.Go(s.orphans)
	for began := time.Now(); time.Since(began) < stormLasts || !s.sawAll() && time.Since(began) < 6*patience; {
		s.blow((len(s.fleet.Masters) - 1) / 2)
	}
}

// sawAll reports whether there were some releases of each kind.
func (s *storm) sawAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(kinds, func(kind string) bool { return s.done[kind] < 3 })
}

// blow makes some masters fail for a moment, in one way.
func (s *storm) blow(masters int) {
	for _, i := range rand.Perm(len(s.fleet.Masters))[:masters] {
		m, p := s.fleet.Masters[i], s.net.proxies[i]
		switch rand.IntN(5) {
		case 0:
			must(s.t, m.Kill())
			defer func() { must(s.t, m.Start()) }()
		case 1:
			must(s.t, m.Freeze())
			defer func() { must(s.t, m.Thaw()) }()
		case 2:
			p.hangUp()
			defer p.cut()
		case 3:
			p.set(replies, weather{dropped: true})
			defer p.heal()
		case 4:
			do(s.t, m, "CONFIG", "SET", "min-replicas-to-write", "1")
			defer func() { do(s.t, m, "CONFIG", "SET", "min-replicas-to-write", "0") }()
		}
	}
	pass(s.t, time.Duration(rand.IntN(200))*time.Millisecond)
}

// left lists the keys of locks and slots on the masters.
func (s *storm) left() (left []string) {
	for _, m := range s.fleet.Masters {
		all, err := redis.Strings(m.Do("KEYS", "*"))
		must(s.t, err)
		for _, key := range all {
			if !strings.HasPrefix(key, scripts.Prefix) || strings.HasPrefix(key, scripts.Prefix+"slot:") {
				left = append(left, key+" on "+m.Addr())
			}
		}
	}
	return left
}

// kinds of locks and of their ends. Workers do all but the last.
var kinds = []string{"name", "names", "slots", "reader", "downgrade", "level", "hand-over", "min hold",
	"given up", "not awaited", "orphan"}

func (s *storm) work(locker *quorum.Locker) {
	for !s.over.Load() {
		kind, name := kinds[rand.IntN(len(kinds)-1)], rand.IntN(len(s.writers))
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		if s.once(ctx, locker, kind, name) {
			s.count(kind)
		}
		cancel()
	}
}

// once acquires a lock of that kind, and releases it. It reports whether it held one.
func (s *storm) once(ctx context.Context, locker *quorum.Locker, kind string, name int) bool {
	texts, names := []string{"a", "b", "c", "d"}, []int{name}
	var held *quorum.Lock
	var err error
	switch kind {
	case "names":
		names = rand.Perm(4)[:2+rand.IntN(3)]
		all := []string{}
		for _, i := range names {
			all = append(all, texts[i])
		}
		held, err = locker.Lock(ctx, all...)
	case "slots":
		names = nil
		held, err = locker.Semaphore("s", 5).AcquireN(ctx, 1+rand.IntN(3))
	case "reader":
		held, err = locker.RWLock(texts[name]).RLock(ctx)
	case "min hold":
		held, err = locker.With(quorum.WithMinHold(20*time.Millisecond)).Lock(ctx, texts[name])
	case "given up":
		short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
		defer cancel()
		if held, err = locker.TryLock(short, texts[name]); err != nil {
			s.want(err, quorum.ErrNotAcquired)
			return true
		}
	case "hand-over":
		held, err = locker.With(quorum.WithLease(briefLease)).Lock(ctx, texts[name])
	default:
		held, err = locker.Lock(ctx, texts[name])
	}
	if err != nil {
		s.want(err, quorum.ErrNotAcquired)
		return false
	}
	reads := kind == "reader"
	s.enter(names, reads)
	pass(s.t, time.Duration(rand.IntN(2000))*time.Microsecond)
	switch kind {
	case "level":
		inner, err := locker.Lock(held.Context(), texts[name])
		if err == nil && rand.IntN(2) == 0 {
			err = inner.Unlock(ctx)
		}
		s.want(err, quorum.ErrUnavailable)
	case "downgrade":
		s.leave(names, false)
		s.want(held.Downgrade(ctx), quorum.ErrUnavailable)
		s.readers[name].Add(1)
		reads = true
	case "hand-over":
		s.leave(names, false)
		ticket, err := held.HandOver(ctx)
		if err != nil {
			held.Unlock(ctx) // as before, or lost
			return false
		}
		if held, err = locker.TakeOver(ctx, ticket); err != nil {
			return false // its keys end with their short lease
		}
		held.Unlock(ctx)
		return true
	case "not awaited":
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	s.leave(names, reads)
	s.want(held.Unlock(ctx), quorum.ErrUnavailable, context.Canceled)
	return true
}

// orphans unlocks locks whose Locker is closed, over nodes that are open.
func (s *storm) orphans() {
	for !s.over.Load() {
		var nodes []*node.Node
		for _, url := range s.net.URLs() {
			n, err := node.Open(url, node.WithTimeout(briefTimeout), node.WithoutQuarantine())
			if err != nil {
				s.t.Error(err)
				return
			}
			nodes = append(nodes, n)
		}
		locker, err := redlock.New(nodes, quorum.WithLease(stormLease))
		if err != nil {
			s.t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		held, err := locker.Lock(ctx, "orphan")
		locker.Close()
		if err == nil {
			s.want(held.Unlock(ctx), quorum.ErrClosed)
			s.count("orphan")
		}
		s.want(err, quorum.ErrNotAcquired)
		cancel()
		s.awaitNoOrphan()
		for _, n := range nodes {
			n.Close()
		}
	}
}

// awaitNoOrphan waits for the releases: the nodes, once closed, send none.
func (s *storm) awaitNoOrphan() {
	isGone := func(m *redistest.Master) bool {
		exists, err := redis.Int(m.Do("EXISTS", "orphan"))
		return err == nil && exists == 0
	}
	poll.Until(patience, func() bool {
		return !slices.ContainsFunc(s.fleet.Masters, func(m *redistest.Master) bool { return !isGone(m) })
	})
}

func (s *storm) enter(names []int, reads bool) {
	for _, i := range names {
		if reads {
			s.readers[i].Add(1)
			if s.writers[i].Load() > 0 {
				s.t.Errorf("a reader beside a writer of name %d", i)
			}
		} else if s.writers[i].Add(1) > 1 || s.readers[i].Load() > 0 {
			s.t.Errorf("a writer beside another holder of name %d", i)
		}
	}
}

func (s *storm) leave(names []int, reads bool) {
	for _, i := range names {
		if reads {
			s.readers[i].Add(-1)
		} else {
			s.writers[i].Add(-1)
		}
	}
}

func (s *storm) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[what]++
}

// want wants no error, or one of these, and none that says that a lock was lost.
func (s *storm) want(err error, any ...error) {
	if err == nil {
		return
	}
	if errors.Is(err, quorum.ErrLost) || !slices.ContainsFunc(any, func(e error) bool { return errors.Is(err, e) }) {
		s.t.Errorf("%v", err)
	}
	s.count(any[0].Error())
}
