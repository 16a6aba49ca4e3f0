package integration_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

// faults cut one client off from its masters.
var faults = []struct {
	name string
	cut  func(*proxy)
}{
	{"refused", refuse},
	{"black hole", func(p *proxy) {
		p.set(requests, weather{dropped: true})
		p.set(replies, weather{dropped: true})
	}},
	// The renewals arrive and keep the locks on the masters, but their replies do not. The holder's
	// release then lets the next holder in.
	{"replies lost", func(p *proxy) { p.set(replies, weather{dropped: true}) }},
}

// refuse closes the connections, and refuses new ones for good.
func refuse(p *proxy) {
	p.listener.Close()
	p.cut()
}

// A holder that is cut off stops by its own clock before another contender can start. Not parallel:
// the time between the two is 1 % of the lease and 2 ms.
func TestHolderThatIsCutOffStopsBeforeTheNextStarts(t *testing.T) {
	for _, n := range []int{3, 5} {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%d masters, %s", n, fault.name), func(t *testing.T) {
				// A machine that stands still until the deadline has sent no renewal that could fail, and
				// ends a context late. Then the scene is played again.
				for tries := 1; ; tries++ {
					net, held, late, stalled := cutOffAll(t, n, fault.cut)
					if slices.ContainsFunc(held, lacksReasons) && stalled > cutOffLease/4 && tries < 5 {
						t.Logf("a lock was lost without a reason, and the machine stood still for %v: again", stalled)
						continue
					}
					if late != "" && tries < 5 {
						t.Logf("%s: again", late)
						continue
					}
					if late != "" {
						t.Error(late)
					}
					for _, first := range held {
						wantReasons(t, first, net)
					}
					return
				}
			})
		}
	}
}

const cutOffLease = 2 * time.Second

// cutOffAll cuts off a holder of three locks, for each of which another one contends. It returns the locks once
// they have passed to the others, a context that ended late while threads waited for a processor, and for how
// long the machine stood still.
func cutOffAll(t *testing.T, n int, cut func(*proxy)) (*network, []*quorum.Lock, string, time.Duration) {
	t.Helper()
	f := fleet(t, n)
	net := proxied(t, f)
	cutOff := open(t, net, redlock.Open, quorum.WithLease(cutOffLease),
		quorum.WithNodeOptions(node.WithTimeout(cutOffLease/8))) // an idle connection that says nothing takes two of them
	other := open(t, f, redlock.Open)
	w := stopwatch(t)
	defer w.Stop()

	var race sync.WaitGroup
	held := make([]*quorum.Lock, 3)
	for i := range held {
		held[i] = lock(t, cutOff, fmt.Sprintf("bridge %d", i))
	}
	net.each(cut)
	late := make([]string, len(held))
	for i, first := range held {
		race.Go(func() { late[i] = contend(t, first, other, n) })
	}
	race.Wait()
	_, stalled := w.Read()
	return net, held, strings.Join(late, ""), stalled
}

// onTime is by how much a timer of an idle machine may be late.
const onTime = 2 * time.Millisecond

// contend tries again and again until the lock is granted, near the deadline in a tight loop, and fails the
// test if the last holder had not stopped by then. If its context ended late, and threads waited for a processor
// for as long, it says so.
func contend(t *testing.T, first *quorum.Lock, other *quorum.Locker, masters int) (late string) {
	var stopped time.Time
	ended := make(chan struct{})
	go func() {
		<-first.Context().Done()
		stopped = time.Now()
		close(ended)
	}()
	// A plain timer at the same deadline shows how late timers are on this machine, at this moment.
	timer := make(chan time.Duration, 1)
	deadline := first.Deadline()
	control := time.AfterFunc(time.Until(deadline), func() { timer <- time.Since(deadline) })
	defer control.Stop()
	near := make(chan time.Duration, 1)
	defer time.AfterFunc(time.Until(deadline.Add(-cutOffLease/20)), func() { near <- poll.Waited() }).Stop()
	refused := 0
	giveUp := time.Now().Add(patience)
	for {
		second, err := other.TryLock(t.Context(), first.Names()...)
		if err != nil {
			refused++
			if !errors.Is(err, quorum.ErrHeld) || time.Now().After(giveUp) {
				t.Errorf("%q, attempt %d: %v", first.Names(), refused, err)
				return ""
			}
			if time.Until(deadline) > cutOffLease/10 {
				<-time.After(2 * time.Millisecond)
			}
			continue
		}
		granted, valid, live := time.Now(), first.Valid(), first.Context().Err() == nil
		if valid {
			t.Errorf("%q: two holders: the one that is cut off is valid", first.Names())
		}
		<-ended
		// The clock of Valid knows no stalls. The context's end is a timer's, which may be late. The goroutine that
		// ends it may be on a thread that waits, while the plain timer's is not.
		lateness, plain := stopped.Sub(granted), <-timer
		if waited := poll.Waited() - <-near; (live || lateness >= 0) && lateness >= max(0, 4*(plain-onTime)) {
			what := fmt.Sprintf("%q: the context was alive: %v; it ended %v after the next holder was granted, a plain timer was late by %v, and threads waited for a processor for %v",
				first.Names(), live, lateness, plain, waited)
			if waited > lateness {
				late = what
			} else {
				t.Error(what)
			}
		}
		if second.Token() <= first.Token() {
			t.Errorf("%q: token %d after %d", first.Names(), second.Token(), first.Token())
		}
		t.Logf("%q: next holder %v after the end of the first, %d attempts refused",
			first.Names(), granted.Sub(stopped), refused)
		if refused == 0 {
			t.Errorf("%q: no contender got the lock", first.Names())
		}
		if err := second.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		return late
	}
}

// slowHandler is a log handler as slow as one that writes to a disk or a pipe.
type slowHandler struct{ slog.Handler }

func (slowHandler) Enabled(context.Context, slog.Level) bool { return true }
func (slowHandler) Handle(context.Context, slog.Record) error {
	<-time.After(time.Millisecond)
	return nil
}

// Many locks are lost together. The context of each ends before its release lets the next holder
// in. Not parallel, as above.
func TestManyLostTogetherStopBeforeTheNextStarts(t *testing.T) {
	const lease, many = 2 * time.Second, 250
	f := fleet(t, 3)
	net := proxied(t, f)
	// The timeout outlasts the lease: the path to the masters is open when the locks are lost, so
	// the releases arrive at once.
	cutOff := open(t, net, redlock.Open, quorum.WithLease(lease), quorum.WithNodeOptions(node.WithTimeout(3*lease)),
		quorum.WithLogger(slog.New(slowHandler{slog.DiscardHandler})))
	other := open(t, f, redlock.Open)
	held := make([]*quorum.Lock, many)
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			var err error
			if held[i], err = cutOff.TryLock(t.Context(), fmt.Sprintf("bridge %d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	pass(t, lease/2) // by now one call renewed them, and they share a deadline
	net.each(func(p *proxy) { p.set(replies, weather{dropped: true}) })

	// Waiters try as soon as the masters publish the releases.
	w := stopwatch(t)
	granted, early, worst := 0, 0, time.Duration(0)
	for i := range freed(t, f, many) {
		if _, err := other.TryLock(t.Context(), held[i].Names()...); err != nil {
			continue
		}
		granted++
		if at := time.Now(); held[i].Context().Err() == nil {
			early++
			<-held[i].Context().Done()
			worst = max(worst, time.Since(at))
		}
	}
	net.each((*proxy).heal)
	if _, stalled := w.Read(); early > 0 && worst >= poll.AtMost(0, stalled) {
		t.Errorf("%d of %d locks were granted while their former holder's context was alive, for up to %v more; the machine stood still for %v",
			early, granted, worst, stalled)
	}
	if granted < many/10 {
		t.Errorf("only %d of %d locks were granted: too few to prove anything", granted, many)
	}
}

// freed returns the bridges that the first two masters publish as free, until the masters fall
// silent.
func freed(t *testing.T, f *redistest.Fleet, bridges int) iter.Seq[int] {
	t.Helper()
	names := make(chan string, 2*bridges)
	var listening sync.WaitGroup
	for _, m := range f.Masters[:2] {
		conn, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(3*soon))
		must(t, err)
		sub := redis.PubSubConn{Conn: conn}
		must(t, sub.PSubscribe(scripts.Channel("bridge *")))
		listening.Go(func() {
			defer conn.Close()
			for heard := 0; heard < bridges; {
				switch got := sub.Receive().(type) {
				case redis.Message:
					names <- got.Channel
					heard++
				case error:
					return
				}
			}
		})
	}
	go func() {
		listening.Wait()
		close(names)
	}()
	return func(yield func(int) bool) {
		seen := map[string]int{}
		for channel := range names {
			if seen[channel]++; seen[channel] != 2 {
				continue
			}
			var i int
			_, err := fmt.Sscanf(channel, scripts.Channel("bridge %d"), &i)
			must(t, err)
			if !yield(i) {
				return
			}
		}
	}
}

// lacksReasons reports whether the loss of a lock names no node.
func lacksReasons(lost *quorum.Lock) bool {
	var why *quorum.Error
	return !errors.As(context.Cause(lost.Context()), &why) || why.Nodes == nil
}

// wantReasons fails the test unless a lock was lost because no node answered.
func wantReasons(t *testing.T, lost *quorum.Lock, net *network) {
	t.Helper()
	cause := context.Cause(lost.Context())
	wantErr(t, cause, quorum.ErrLost)
	wantErr(t, lost.Err(), quorum.ErrLost)
	wantErr(t, lost.Unlock(t.Context()), quorum.ErrLost)
	var why *quorum.Error
	if !errors.As(cause, &why) || why.Nodes == nil || len(why.Nodes.Errors) != len(net.proxies) {
		t.Fatalf("%v: no reason for each node", cause)
	}
	for i, p := range net.proxies {
		var failed *node.Error
		if err := why.Nodes.Errors[i]; !errors.As(err, &failed) || failed.Node != p.upstream ||
			!errors.Is(err, node.ErrDown) && !errors.Is(err, node.ErrTimeout) {
			t.Errorf("reason of node %d: %v", i+1, err)
		}
	}
	if text := cause.Error(); !strings.Contains(text, lost.Names()[0]) {
		t.Errorf("%s: does not name the lock", text)
	}
}
