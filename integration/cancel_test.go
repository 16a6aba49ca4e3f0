package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// atOnce bounds how long a call goes on after its context was cancelled.
const atOnce = 50 * time.Millisecond

// scene is the fixture in which a call is cancelled: masters, the network to them, and a locker
// with a node timeout that is too long to end the call.
type scene struct {
	t      *testing.T
	f      *redistest.Fleet
	net    *network
	locker *quorum.Locker
	name   string
}

// cancelled calls fn, cancels its context once the call is under way, and checks how the call ends.
func (s *scene) cancelled(fn func(context.Context) error, underWay func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	eventually(s.t, patience, func() bool {
		select {
		case err := <-done:
			s.t.Fatalf("it ended before it was cancelled: %v", err)
		default:
		}
		return underWay()
	}, "the call comes to the step at which it is to be cancelled")
	w := stopwatch(s.t)
	defer w.Stop()
	cancel()
	select {
	case err := <-done:
		d, stalled := w.Read()
		s.t.Logf("returned %v after it was cancelled: %v", d.Round(10*time.Microsecond), err)
		if d > poll.AtMost(atOnce, stalled) {
			s.t.Errorf("it went on for %v after it was cancelled; the machine stood still for %v", d, stalled)
		}
		wantErr(s.t, err, context.Canceled)
	case <-time.After(patience):
		s.t.Fatal("it does not return after it was cancelled")
	}
}

func (s *scene) tryLock(ctx context.Context) error {
	return notHeld(s.locker.TryLock(ctx, s.name))
}

func (s *scene) lock(ctx context.Context) error {
	return notHeld(s.locker.Lock(ctx, s.name))
}

// notHeld is the error of an attempt that must not succeed.
func notHeld(held *quorum.Lock, err error) error {
	switch {
	case err == nil && held != nil:
		return errors.New("the lock was acquired")
	case err == nil:
		return errors.New("neither a lock nor an error")
	case held != nil:
		return fmt.Errorf("a lock and an error: %w", err)
	case !errors.Is(err, quorum.ErrNotAcquired):
		return fmt.Errorf("not ErrNotAcquired: %w", err)
	}
	return err
}

// reached counts the masters to which a call of the script was sent.
func (s *scene) reached(script string) int {
	n := 0
	for _, p := range s.net.proxies {
		if p.saw(sha(s.t, script)) > 0 {
			n++
		}
	}
	return n
}

// ran counts the masters that carried out an acquire of the name, which creates the token counter.
func (s *scene) ran() int {
	n := 0
	for _, m := range s.f.Masters {
		if do(s.t, m, "EXISTS", counterOf(s.name)) == int64(1) {
			n++
		}
	}
	return n
}

// occupy gives the name to another owner on some masters.
func (s *scene) occupy(ms ...*redistest.Master) {
	for _, m := range ms {
		do(s.t, m, "HSET", s.name, "other:1", "1")
		do(s.t, m, "PEXPIRE", s.name, 30_000)
	}
}

func (s *scene) leave(ms ...*redistest.Master) {
	for _, m := range ms {
		if do(s.t, m, "HDEL", s.name, "other:1") != int64(1) {
			s.t.Errorf("the other owner's grant on %s was taken away", m.Addr())
		}
	}
}

func (s *scene) hold(d direction) {
	s.net.each(func(p *proxy) { p.set(d, weather{held: true}) })
}

func TestCancel(t *testing.T) {
	steps := map[string]func(*scene){
		"before": func(s *scene) {
			ctx, cancel := context.WithCancel(s.t.Context())
			cancel()
			for what, call := range map[string]func(context.Context) error{"Lock": s.lock, "TryLock": s.tryLock} {
				took(s.t, what, atOnce, func() { wantErr(s.t, call(ctx), context.Canceled, quorum.ErrNotAcquired) })
			}
			if n := s.net.saw(s.name); n != 0 {
				s.t.Errorf("%d requests were sent", n)
			}
		},
		"while connecting": func(s *scene) {
			s.hold(replies)
			before := s.net.saw("SETNAME")
			s.net.each((*proxy).cut)
			s.cancelled(s.lock, func() bool { return s.net.saw("SETNAME") >= before+3 })
			s.net.each((*proxy).heal)
		},
		"acquires on their way there": func(s *scene) {
			s.hold(requests)
			s.cancelled(s.tryLock, func() bool { return s.reached("acquire") == 3 })
			s.net.each((*proxy).heal)
			eventually(s.t, patience, func() bool { return s.ran() == 3 },
				"the late acquires are carried out, so that there is something to undo")
		},
		"acquires late": func(s *scene) {
			s.net.each(func(p *proxy) { p.set(requests, weather{latency: soon}) })
			s.cancelled(s.lock, func() bool { return s.reached("acquire") == 3 })
			eventually(s.t, patience, func() bool { return s.ran() == 3 },
				"the late acquires are carried out, so that there is something to undo")
		},
		"grants on their way back": func(s *scene) {
			s.hold(replies)
			s.cancelled(s.lock, func() bool { return len(leftOver(s.t, s.f.Masters, s.name)) == 3 })
			noKeys(s.t, s.f.Masters, s.name) // the releases need no reply
			s.net.each((*proxy).heal)
		},
		"some grants read, others not": func(s *scene) {
			for _, p := range s.net.proxies[1:] {
				p.set(replies, weather{held: true})
			}
			s.cancelled(s.lock, func() bool { return len(leftOver(s.t, s.f.Masters, s.name)) == 3 })
			s.net.each((*proxy).heal)
		},
		"token write-back on its way there": func(s *scene) {
			s.spread()
			s.net.each(func(p *proxy) { p.holdAt(sha(s.t, "raise"), requests) })
			s.cancelled(s.tryLock, func() bool { return s.reached("raise") > 0 })
			s.net.each((*proxy).heal)
		},
		"token write-back on its way back": func(s *scene) {
			s.spread()
			s.net.each(func(p *proxy) { p.holdAt(sha(s.t, "raise"), replies) })
			s.cancelled(s.tryLock, func() bool { return s.reached("raise") > 0 })
			s.net.each((*proxy).heal)
		},
		"waiting for a held lock": func(s *scene) {
			s.occupy(s.f.Masters...)
			s.cancelled(s.lock, func() bool { return s.net.saw(sha(s.t, "acquire")) >= 3 })
			for _, hash := range keys(s.t, s.f.Masters, s.name) {
				if len(hash) != 1 || hash["other:1"] != "1" {
					s.t.Errorf("a master says %v, want the other owner's grant alone", hash)
				}
			}
			s.leave(s.f.Masters...)
		},
		"rollback of Lock": func(s *scene) {
			s.loseAfterOneGrant()
			s.cancelled(s.lock, func() bool { return s.reached("release") > 0 })
			s.net.each((*proxy).heal)
			s.leave(s.f.Masters[1:]...)
		},
		"rollback of TryLock": func(s *scene) {
			s.loseAfterOneGrant()
			s.cancelled(s.tryLock, func() bool { return s.reached("release") > 0 })
			s.net.each((*proxy).heal)
			s.leave(s.f.Masters[1:]...)
		},
		"Unlock": func(s *scene) {
			held := lock(s.t, s.locker, s.name)
			eventually(s.t, patience, func() bool { return len(leftOver(s.t, s.f.Masters, s.name)) == 3 },
				"the lock stands on every master")
			s.hold(requests)
			s.cancelled(held.Unlock, func() bool { return s.reached("release") == 3 })
			if held.Valid() || held.Context().Err() == nil {
				s.t.Error("valid after Unlock")
			}
			s.net.each((*proxy).heal)
		},
		"Unlock, cancelled before": func(s *scene) {
			held := lock(s.t, s.locker, s.name)
			s.hold(requests)
			ctx, cancel := context.WithCancel(s.t.Context())
			cancel()
			took(s.t, "Unlock", atOnce, func() { wantErr(s.t, held.Unlock(ctx), context.Canceled) })
			s.net.each((*proxy).heal)
		},
		"nested acquire": func(s *scene) {
			held := lock(s.t, s.locker, s.name)
			s.hold(requests)
			before := s.net.saw(sha(s.t, "acquire"))
			s.cancelled(func(ctx context.Context) error {
				flow, cancel := context.WithCancel(held.Context())
				defer context.AfterFunc(ctx, cancel)()
				return notHeld(s.locker.Lock(flow, s.name))
			}, func() bool { return s.net.saw(sha(s.t, "acquire")) >= before+3 })
			s.net.each((*proxy).heal)
			levelIs(s.t, s.f.Masters, held, 1)
			unlock(s.t, held)
		},
	}
	for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			for step, run := range steps {
				t.Run(step, func(t *testing.T) {
					s := &scene{t: t, f: f, net: proxied(t, f), name: "cancelled: " + step}
					s.locker = open(t, s.net, by, quorum.WithNodeOptions(node.WithTimeout(2*soon)))
					run(s)
					noLocks(t, s.f.Masters)
					s.net.each((*proxy).heal)
					unlock(t, lock(t, s.locker, s.name))
					noKeys(t, s.f.Masters, s.name)
				})
			}
		})
	}
}

// loseAfterOneGrant makes attempts fail after one master's grant was read, and holds back their
// rollback.
func (s *scene) loseAfterOneGrant() {
	s.occupy(s.f.Masters[1:]...)
	for _, p := range s.net.proxies[1:] {
		p.set(replies, weather{latency: time.Second})
	}
	s.net.each(func(p *proxy) { p.holdAt(sha(s.t, "release"), requests) })
}

// spread makes the masters' token counters differ: no two grants agree, and a write-back is needed.
func (s *scene) spread() {
	for i, m := range s.f.Masters {
		do(s.t, m, "SET", counterOf(s.name), 3_000_000_000_000_000+1000*i)
	}
}
