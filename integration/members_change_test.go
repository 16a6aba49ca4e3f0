package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// rolloutLease is the max lease of the deployments whose masters change under load.
const rolloutLease = 3 * time.Second

// oneChange is one change of the list by one master.
type oneChange struct {
	verb string   // of members
	name string   // the master to add or remove
	to   []string // the new list
}

// The masters change under a lock that is held all the time and under contenders, which change over
// to the new list one after another. Locks are lost by nobody but by a client that keeps the old list: at its
// deadline. Clients with a wrong list never hold.
func TestMembersChangeUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     string
		masters []string
		dead    string
		changes []oneChange
		wrong   [][]string
	}{
		{
			how: "from 3 to 5", masters: []string{"a", "b", "c", "d", "e"},
			changes: []oneChange{{"add", "d", abcd}, {"add", "e", []string{"a", "b", "c", "d", "e"}}},
			wrong:   [][]string{{"c", "d", "e"}, {"a", "b", "e"}},
		},
		{
			how: "a live master is replaced", masters: abcd,
			changes: []oneChange{{"add", "d", abcd}, {"remove", "c", []string{"a", "b", "d"}}},
			wrong:   [][]string{{"a", "c", "d"}, {"b", "c", "d"}},
		},
		{
			how: "a dead master is replaced", masters: abcd, dead: "c",
			changes: []oneChange{{"remove", "c", []string{"a", "b"}}, {"add", "d", []string{"a", "b", "d"}}},
			wrong:   [][]string{{"a", "c", "d"}, {"b", "c", "d"}},
		},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			inTime(t, rolloutLease, func(lease time.Duration) bool {
				o := newOperator(t, lease)
				r := rosterOf(t, c.masters...)
				r.giveAll(t, lease, abc...)
				if c.dead != "" {
					must(t, r.masters[c.dead].Kill())
				}
				load := newLoad(t, r, lease)
				for range 3 {
					load.contend(abc)
				}
				for _, names := range c.wrong {
					load.intrude(names)
				}
				stale, staleLocker := load.hold(abc, "stale")
				held, _ := load.hold(abc, "held by 1")
				list := abc
				for i, change := range c.changes {
					at := func(when string) string { return fmt.Sprintf("%s %s, %s", change.verb, change.name, when) }
					args := r.of(list...)
					switch change.verb {
					case "add":
						args = slices.Insert(args, 0, r.url(change.name))
					case "remove":
						args = slices.Insert(args, 0, change.name)
					}
					o.does(t, "members "+change.verb, args...)
					next, _ := load.hold(change.to, fmt.Sprintf("held by %d", i+2))
					if !load.keeps(held, at("announced")) {
						return false
					}
					load.roll(change.to)
					load.progress(at("with the new list"))
					if !load.keeps(held, at("with the new list")) {
						return false
					}
					load.end(held)
					if i == 0 && stale.Err() != nil {
						t.Errorf("%s: the stale client lost its lock before the commit: %v", at("announced"), stale.Err())
					}
					o.does(t, "members commit -yes", r.of(change.to...)...)
					load.progress(at("committed"))
					if i == 0 {
						load.ends(stale, staleLocker, change.to)
					}
					pass(t, lease)
					if !load.keeps(next, at("one max lease after the commit")) {
						return false
					}
					held, list = next, change.to
				}
				load.end(held)
				load.judge()
				for _, names := range append(c.wrong, abc) {
					isRefused(t, redlock.Open, lease, r.of(names...))
				}
				isAccepted(t, redlock.Open, lease, r.of(list...))
				return true
			})
		})
	}
}

// load is clients at work.
type load struct {
	*testing.T
	r       *roster
	lease   time.Duration // max lease
	since   *poll.Stopwatch
	log     history.Log
	clients atomic.Int64 // numbers them
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
	rolls   []*rolling
	held    atomic.Int64 // locks that contenders have held
	refused atomic.Int64 // attempts of intruders
}

// rolling is a contender, which changes over to another list.
type rolling struct {
	to   chan []string
	done chan struct{} // receives a value when it has
}

func newLoad(t *testing.T, r *roster, lease time.Duration) *load {
	l := &load{T: t, r: r, lease: lease, since: stopwatch(t)}
	l.ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(func() { l.stop(); l.running.Wait() })
	return l
}

func (l *load) open(names []string) (*quorum.Locker, error) {
	return redlock.Open(l.r.of(names...), quorum.WithNodeOptions(node.WithTimeout(memberTimeout), node.WithMaxLease(l.lease)))
}

func (l *load) close(locker *quorum.Locker) {
	if err := locker.Close(); err != nil {
		l.Errorf("closing: %v", err)
	}
}

// acquire makes an attempt, or waits, and records the lock that it gets.
func (l *load) acquire(
	client int, name string, by func(context.Context, ...string) (*quorum.Lock, error),
) (*quorum.Lock, error) {
	called := time.Now().UnixNano()
	held, err := by(l.ctx, name)
	if err == nil {
		l.record(client, held, history.Acquired, called)
	}
	return held, err
}

func (l *load) record(client int, held *quorum.Lock, kind history.Kind, called int64) {
	l.log.Add(history.Event{Client: client, Name: held.Names()[0], Owner: held.Owner(), Kind: kind, Token: held.Token(),
		Call: called, Return: time.Now().UnixNano(), Deadline: held.Deadline().UnixNano()})
}

// contend starts a contender for "job".
func (l *load) contend(names []string) {
	r := &rolling{make(chan []string), make(chan struct{})}
	l.rolls = append(l.rolls, r)
	client := int(l.clients.Add(1))
	l.running.Go(func() {
		for l.ctx.Err() == nil {
			names = l.work(client, names, r)
		}
	})
}

// work contends with one list until the client is to change over.
func (l *load) work(client int, names []string, r *rolling) (to []string) {
	locker, err := l.open(names)
	if err != nil {
		l.Errorf("opening %v: %v", names, err)
		l.stop()
		return nil
	}
	defer l.close(locker)
	for {
		select {
		case to = <-r.to:
			r.done <- struct{}{}
			return to
		case <-l.ctx.Done():
			return nil
		default:
		}
		held, err := l.acquire(client, "job", locker.Lock)
		if err != nil {
			if l.ctx.Err() == nil {
				l.Errorf("a contender with %v: %v", names, err)
				l.stop()
			}
			return nil
		}
		if !held.Valid() {
			l.Errorf("lost at once: %v", held.Err())
		}
		l.held.Add(1)
		l.rest(20 * time.Millisecond) // a job
		called := time.Now().UnixNano()
		err = held.Unlock(context.Background())
		l.record(client, held, history.Released, called)
		if err != nil {
			l.Errorf("a contender with %v: unlock: %v", names, err)
		}
	}
}

// roll changes the contenders over, one after another.
func (l *load) roll(names []string) {
	l.Helper()
	for _, r := range l.rolls {
		select {
		case r.to <- names:
			<-r.done
		case <-l.ctx.Done():
			l.Fatal("the contenders have stopped")
		}
		l.progress("while contenders change over")
	}
}

// progress waits until contenders have held again.
func (l *load) progress(when string) {
	l.Helper()
	since := l.held.Load()
	enough := func() bool { return l.held.Load() > since+3 || l.ctx.Err() != nil }
	eventually(l.T, 10*soon, enough, "contenders hold, "+when)
}

// intrude starts a client with a wrong list, which must never hold.
func (l *load) intrude(names []string) {
	client := int(l.clients.Add(1))
	l.running.Go(func() {
		locker, err := l.open(names)
		if err != nil {
			l.Errorf("opening %v: %v", names, err)
			return
		}
		defer l.close(locker)
		for l.ctx.Err() == nil {
			for _, name := range []string{"job", "held by 1", "held by 2", "free"} {
				held, err := l.acquire(client, name, locker.TryLock)
				switch {
				case err == nil:
					l.Errorf("the wrong list %v holds %q: %v", names, name, held.Unlock(context.Background()))
				case !errors.Is(err, quorum.ErrMembership) && l.ctx.Err() == nil:
					l.Errorf("the wrong list %v: not %q, but: %v", names, quorum.ErrMembership, err)
				}
				l.refused.Add(1)
				l.rest(40 * time.Millisecond)
			}
		}
	})
}

// rest returns after d, or when the load ends.
func (l *load) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.ctx.Done():
	}
}

// hold locks a name with a client of its own, until end or the end of the test.
func (l *load) hold(names []string, name string) (*quorum.Lock, *quorum.Locker) {
	l.Helper()
	locker, err := l.open(names)
	must(l.T, err)
	l.Cleanup(func() { l.close(locker) })
	late := time.AfterFunc(2*patience, l.stop)
	defer late.Stop()
	held, err := l.acquire(int(l.clients.Add(1)), name, locker.Lock)
	if err != nil {
		l.Fatalf("a client with %v does not get %q: %v", names, name, err)
	}
	return held, locker
}

// keeps fails the test unless a lock is held, and nobody else gets its name. It ends the load and returns false if
// the machine has stood still for so long that the lock may have missed its renewals.
func (l *load) keeps(held *quorum.Lock, when string) bool {
	l.Helper()
	if held.Valid() {
		return true
	}
	if took, stalled := l.since.Read(); poll.AtMost(0, stalled) > l.lease/3 {
		l.Logf("%v is lost, %s: %v; the machine stood still for %v of %v", held.Names(), when, held.Err(), stalled, took)
		l.stop()
		l.running.Wait()
		return false
	}
	l.Errorf("%v is lost, %s: %v", held.Names(), when, held.Err())
	return true
}

func (l *load) end(held *quorum.Lock) {
	l.Helper()
	called := time.Now().UnixNano()
	unlock(l.T, held)
	l.record(0, held, history.Released, called)
}

// ends waits until the lock of a client that keeps its old list ends, and until a client with the
// new list has its name.
func (l *load) ends(stale *quorum.Lock, by *quorum.Locker, list []string) {
	l.Helper()
	next, _ := l.hold(list, "stale")
	l.Logf("the stale lock ended %v before the next one began", time.Since(stale.Deadline()))
	if stale.Valid() || stale.Err() == nil {
		l.Error("the stale client holds while the next one does")
	}
	wantErr(l.T, stale.Err(), quorum.ErrLost, quorum.ErrMembership)
	l.record(0, stale, history.Lost, stale.Deadline().UnixNano())
	_, err := by.Lock(l.ctx, "other")
	wantErr(l.T, err, quorum.ErrMembership)
	l.end(next)
}

// judge ends the load, and judges the intervals in which its locks were valid, and their tokens.
func (l *load) judge() {
	l.Helper()
	l.stop()
	l.running.Wait()
	events := l.log.Events()
	for _, v := range history.Check(events, history.Options{HonestClocks: true}) {
		l.Error(v)
	}
	l.Logf("contenders held %d times, wrong lists were refused %d times, %d events, 0 overlaps unless said above",
		l.held.Load(), l.refused.Load(), len(events))
	if l.refused.Load() == 0 {
		l.Error("no client with a wrong list asked")
	}
}

// The same without the check: masters that accept two lists whose majorities do not meet have two holders. A
// master that is given another list without quarantine has, too.
func TestMembersUncheckedFindsTwo(t *testing.T) {
	t.Parallel()
	cde := []string{"c", "d", "e"}
	all := []string{"a", "b", "c", "d", "e"}
	for how, c := range map[string]struct {
		second    []string
		uncheck   func(*testing.T, *roster, time.Duration)
		takeovers []string // masters that are given the second list while the first lock is held
	}{
		"every master accepts both": {second: cde, uncheck: func(t *testing.T, r *roster, lease time.Duration) {
			for _, name := range all {
				r.give(t, name, lease, abc, cde)
			}
		}},
		"masters forget, and are given the other list at once": {
			second: []string{"b", "c", "d"}, takeovers: []string{"b", "c", "d"},
			uncheck: func(t *testing.T, r *roster, lease time.Duration) { r.giveAll(t, lease, abc...) },
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			inTime(t, rolloutLease, func(lease time.Duration) bool {
				r := rosterOf(t, all...)
				c.uncheck(t, r, lease)
				l := newLoad(t, r, lease)
				first, _ := l.hold(abc, "job")
				for _, name := range c.takeovers {
					do(t, r.masters[name], "FLUSHALL")
					r.give(t, name, lease, c.second, nil)
				}
				second, _ := l.hold(c.second, "job")
				if !first.Valid() || !second.Valid() {
					return false // one holder at a time proves nothing about the check
				}
				found := history.Check(l.log.Events(), history.Options{HonestClocks: true})
				if !slices.ContainsFunc(found, func(v history.Violation) bool { return strings.HasPrefix(v.Rule, "overlap") }) {
					t.Errorf("the judge sees no overlap: %v", found)
				}
				t.Logf("found: %v", found)
				return true
			})
		})
	}
}
