package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/steps"
	"github.com/quorumlock/quorumlock/internal/testkit"
	inmemory "github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	masters   = 3
	need      = 2
	lasts     = 10 * time.Second // every lease
	mostSteps = 2000
)

// world is one run of a scenario.
type world struct {
	t       *testing.T
	masters []*fakeredis.Master
	lockers []*quorum.Locker

	mu     sync.Mutex
	locks  []*quorum.Lock // in the order they were acquired
	wrong  []string
	open   int           // tasks
	passed time.Duration // by jumps

	deaths [masters]atomic.Int32    // how often the master's connections have died
	gone   [masters]map[string]bool // by owner: the master's last reply was that it does not have the owner
}

// scenario is what callers do at the same time.
type scenario struct {
	name    string
	lockers int
	opts    []quorum.Option
	prepare func(w *world) // before the steps
	tasks   []func(w *world)
	jumps   []time.Duration // by which time passes, in this order
	keeps   bool            // a key may be left to its lease
	large   bool            // the deep search may stop before it has played all orders
}

// reading is a client's end of a connection. What it reads is a step. A connection that dies before that loses it.
type reading struct {
	net.Conn
	label  string
	deaths *atomic.Int32 // of connections to the master
	before int32         // deaths, when this connection was made
}

func (c reading) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	steps.Step(c.label)
	if c.deaths.Load() > c.before {
		return 0, net.ErrClosed
	}
	return n, err
}

// watched is a context of a caller's, which must not be asked with a mutex locked.
type watched struct {
	context.Context
	w *world
}

func (c watched) Done() <-chan struct{} { c.w.asked("Done"); return c.Context.Done() }
func (c watched) Err() error            { c.w.asked("Err"); return c.Context.Err() }
func (c watched) Value(key any) any     { c.w.asked("Value"); return c.Context.Value(key) }

func (w *world) asked(what string) {
	if steps.HoldsMutex() {
		w.fail("a caller's context is asked for %s with a mutex locked", what)
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *world) ctx() context.Context { return watched{w.t.Context(), w} }

// acquired notes a lock, which must have a higher token than those before.
func (w *world) acquired(lock *quorum.Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.locks); n > 0 && lock.Token() <= w.locks[n-1].Token() {
		w.wrong = append(w.wrong, fmt.Sprintf("token %d comes after %d", lock.Token(), w.locks[n-1].Token()))
	}
	w.locks = append(w.locks, lock)
}

// hears returns what a master calls when it has run a script. It notes which owners the master does not have.
func (w *world) hears(master int) func(client, script string, args []string, reply any, err error) {
	return func(_, script string, args []string, reply any, _ error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch script {
		case "acquire", "acquires", "read": // it may have granted
			clear(w.gone[master])
		case "renew":
			said, _ := reply.(string)
			if refusal, ok := reply.([]any); ok {
				said = refusal[3].(string)
			}
			owners := args[1+2*(len(args)-2)/5:] // behind the marker, and two keys for each lock
			for i, is := range said {
				w.gone[master][owners[3*i]] = is == 'G'
			}
		}
	}
}

// isGone reports whether too few masters keep a lock, by the last replies to its renewals.
func (w *world) isGone(lock *quorum.Lock) bool {
	owner, gone := lock.Owner(), 0
	if lock.Shared() {
		owner = scripts.Prefix + "reader:" + owner
	}
	for _, of := range w.gone {
		if of[owner] {
			gone++
		}
	}
	return gone > masters-need
}

// confirmed notes that a call has had a lock confirmed, which must be held then.
func (w *world) confirmed(what string, lock *quorum.Lock) {
	if lock.Context().Err() != nil {
		w.fail("%s returns nil, and the lock has ended", what)
	}
}

// check looks at all locks, when no goroutine is within a section.
func (w *world) check() {
	valid := 0
	for i, lock := range w.locks {
		if l, ok := any(lock).(interface{ Check() error }); !ok {
			w.fail("the lock has no invariants: the search is not of the binary that it was compiled for")
		} else if err := l.Check(); err != nil {
			w.fail("%v", err)
		}
		if lock.Valid() {
			valid++
			for _, before := range w.locks[:i] {
				if w.passed < lasts && before.Context().Err() == nil {
					w.fail("a lock is valid, and the context of the one before has not ended")
				}
			}
		}
	}
	if valid > 1 {
		w.fail("%d locks are valid at once", valid)
	}
}

// choice is one step of a run.
type choice struct {
	of, picked int
	label      string
}

// run plays the scenario: its first steps as picked, and then the usual ones.
func (s scenario) run(t *testing.T, picked []int) (all []choice, wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		in := inmemory.New(t, masters)
		w := &world{t: t, masters: in.Masters}
		for i := range w.masters {
			w.gone[i] = map[string]bool{}
			w.masters[i].Trace = w.hears(i)
		}
		for l := range max(s.lockers, 1) {
			p := in.NewProcess()
			p.Wrap = func(master int, c net.Conn) net.Conn {
				deaths := &w.deaths[master]
				return reading{c, fmt.Sprintf("reply of master %d to locker %d", master, l), deaths, deaths.Load()}
			}
			nodes := p.Nodes(node.WithoutQuarantine(), node.WithMaxLease(lasts), node.WithLogger(slog.New(slog.DiscardHandler)))
			opts := append([]quorum.Option{quorum.WithLease(lasts), quorum.WithLogger(slog.New(slog.DiscardHandler)),
				inside.Option[quorum.Option](func(s *inside.Settings) {
					s.Clock, s.Random = clock.Clock(in.Clock), rand.NewPCG(1, uint64(l))
				})}, s.opts...)
			locker := testkit.Got(quorum.New(nodes, quorum.Majority, opts...))(t)
			w.lockers = append(w.lockers, locker)
		}
		if s.prepare != nil {
			s.prepare(w)
		}
		synctest.Wait()
		all = w.play(s, picked)
		wrong = w.end(s)
	})
	return all, wrong
}

func (w *world) play(s scenario, picked []int) (all []choice) {
	schedule := steps.Begin()
	defer schedule.End()
	w.open = len(s.tasks)
	for i, task := range s.tasks {
		go func() {
			steps.Step(fmt.Sprint("call ", i))
			task(w)
			w.mu.Lock()
			w.open--
			w.mu.Unlock()
		}()
	}
	jumps, waited := s.jumps, time.Duration(0)
	for {
		enabled := schedule.Enabled()
		if len(w.wrong) > 0 {
			return all
		}
		if len(all) == mostSteps {
			w.fail("it does not end")
			return all
		}
		schedule.Look(w.check)
		if len(jumps) > 0 { // time is the first alternative to the usual step
			enabled = slices.Insert(enabled, min(1, len(enabled)), "time passes")
		}
		if len(enabled) == 0 {
			if blocked := schedule.Blocked(); blocked != "" {
				w.fail("a deadlock: %s", blocked)
			}
			if w.open == 0 {
				return all
			}
			if waited += time.Second; waited > time.Minute {
				w.fail("%d calls have not returned", w.open)
				return all
			}
			time.Sleep(time.Second)
			continue
		}
		pick := 0
		if len(all) < len(picked) {
			pick = min(picked[len(all)], len(enabled)-1)
		}
		all = append(all, choice{len(enabled), pick, enabled[pick]})
		switch at := min(1, len(enabled)-1); {
		case len(jumps) == 0 || pick < at:
			schedule.Go(pick)
		case pick == at:
			w.passed += jumps[0]
			time.Sleep(jumps[0])
			jumps = jumps[1:]
		default:
			schedule.Go(pick - 1)
		}
	}
}

// isLeft reports whether a key should be gone when nobody holds or waits. A writer that was granted the lock by the other
// masters leaves its reservation on one that refused it: that ends by itself, within two seconds.
func (w *world) isLeft(key string) bool {
	if strings.HasPrefix(key, "quorumlock:writer:") {
		return !slices.ContainsFunc(w.locks, func(l *quorum.Lock) bool { return !l.Shared() })
	}
	return !slices.ContainsFunc([]string{"counter:", "locker:", "marker", "released:"}, func(stays string) bool {
		return strings.HasPrefix(key, "quorumlock:"+stays)
	})
}

// end closes the lockers, and returns what was wrong.
func (w *world) end(s scenario) []string {
	synctest.Wait()
	if len(w.wrong) == 0 {
		testkit.Pass(time.Second)
		w.check()
		for _, lock := range w.locks {
			if lock.Valid() && w.isGone(lock) {
				w.fail("a lock is valid, and too few masters keep it by what they have replied")
			}
		}
		for i, m := range w.masters {
			left := slices.DeleteFunc(m.Keys(), func(key string) bool { return !w.isLeft(key) })
			if len(left) > 0 && !(s.keeps && len(w.locks) > 0) {
				w.fail("master %d has a key left: %s", i, strings.Join(left, " "))
			}
		}
	}
	for i, l := range w.lockers {
		valid := 0
		for _, lock := range w.locks {
			if lock.Valid() && strings.HasPrefix(lock.Owner(), l.ID()) {
				valid++
			}
		}
		if s := l.Stats(); len(w.wrong) == 0 && (s.Held != valid || s.Waiting > 0) {
			w.fail("locker %d counts %d locks, of which %d are valid, and %d calls that wait", i, s.Held, valid, s.Waiting)
		}
		l.Close()
	}
	synctest.Wait()
	for _, lock := range w.locks {
		if lock.Context().Err() == nil {
			w.fail("a context goes on after Close")
		}
		if errors.Is(lock.Err(), quorum.ErrClosed) && !lock.Deadline().IsZero() {
			w.fail("a lock has a deadline after Close")
		}
	}
	return w.wrong
}
