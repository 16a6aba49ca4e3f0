package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A process other than before is used if one more dial leads to no other master; the first one if four more lead to none,
// and if the address has led to two, only if all four lead to it.
func TestProcessesAreCompared(t *testing.T) {
	masters := twoFakes(t)
	known := errors.New("it has led to two")
	for _, c := range []struct {
		before    string
		known     error
		next      string // where the next dials lead; - for nowhere
		isDead    bool   // the first connection is, when it is asked again
		maxActive int
		want      string
		dials     int
	}{
		{next: "aaaa", dials: 4},
		{next: "aaa-", dials: 4},
		{next: "aaab", want: "one address leads to two masters", dials: 4},
		{next: "aaab", isDead: true, want: "closed", dials: 4},
		{before: "another", next: "a", dials: 1},
		{before: "another", next: "-", dials: 1},
		{before: "another", next: "b", want: "one address leads to two masters", dials: 1},
		{next: "b", maxActive: 1},
		{next: "b", maxActive: 5},
		{next: "b", maxActive: 6, want: "one address leads to two masters", dials: 1},
		{known: known, next: "aaaa", dials: 4},
		{known: known, next: "aaab", want: "one address leads to two masters", dials: 4},
		{known: known, next: "aaa-", want: known.Error(), dials: 4},
	} {
		s, dials := leading(masters, "a"+c.next, c.maxActive)
		conn := testkit.Got(s.TakeConn(t.Context()))(t)
		runID := testkit.Got(s.ask(t.Context(), conn))(t)
		if c.isDead {
			redisconn.Kill(conn)
		}
		more := dialsOfFirst
		if c.before != "" {
			more = 1
		}
		others := s.dialMore(t.Context(), more)
		err := s.compare(t.Context(), conn, runID, c.known, others)
		others.end()
		conn.Close()
		testkit.Check(t, c.want == "" && err == nil || err != nil && c.want != "" && strings.Contains(err.Error(), c.want), "%+v: %v", c, err)
		testkit.Equal(t, int(dials.Load())-1, c.dials, "dials")
		_, two := s.leads.now()
		testkit.Equal(t, two != nil, strings.HasPrefix(c.want, "one address"), "refused")
		testkit.Must(t, s.pool.Close())
	}
}

// A balancer takes turns: two clients that start together may each be led to one master twice, and repeatedly.
func TestTheFirstProcessIsComparedRepeatedly(t *testing.T) {
	s, dials := leading(twoFakes(t), "aaaab", 0)
	err := s.take(t.Context(), func(c redis.Conn) (string, error) { return s.ask(t.Context(), c) })
	testkit.Is(t, err, ErrInvalid, "what is taken")
	testkit.Equal(t, int(dials.Load()), 5, "dials")
	testkit.Must(t, s.pool.Close())
}

// A process is compared whenever it is another one, and once the address has led to two, also the one that is known.
func TestWhenProcessesAreCompared(t *testing.T) {
	masters := twoFakes(t)
	for _, c := range []struct {
		isKnown bool
		two     error
	}{{}, {two: errors.New("two")}, {isKnown: true, two: errors.New("two")}} {
		s, _ := leading(masters, "aabbbb", 0)
		s.leads.to, s.leads.two = "another", c.two
		runID := testkit.Got(s.dialAndAsk(t.Context()))(t)
		if c.isKnown {
			s.leads.to = runID
		}
		err := s.take(t.Context(), func(conn redis.Conn) (string, error) { return s.ask(t.Context(), conn) })
		testkit.Is(t, err, ErrInvalid, "what is taken")
	}
}

// A connection of which another one has found meanwhile that the address led elsewhere may lead to a dead process.
func TestTheNextConnectionIsTaken(t *testing.T) {
	s, dials := leading(twoFakes(t), "aa", 0)
	s.opts.OneProcess = true
	err := s.take(t.Context(), func(redis.Conn) (string, error) {
		if dials.Load() == 1 {
			testkit.Got(s.leads.turn("newer", "", nil))(t)
		}
		return fmt.Sprint("process ", dials.Load()), nil
	})
	testkit.Must(t, err)
	testkit.Equal(t, s.leads.to, "process 2", "leads to")
}

// A connection that is refused does not wait for the dials that began with it.
func TestDialsEndWithTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials, ended atomic.Int32
		s := &server{opts: options{timeout: time.Second, conns: 1}, pool: &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			if dials.Add(1) > 1 {
				<-ctx.Done()
				time.Sleep(time.Millisecond)
				ended.Add(1)
				return nil, ctx.Err()
			}
			return testkit.Pipe(func(net.Conn) {}), nil
		}}}
		began := time.Now()
		testkit.Is(t, s.take(t.Context(), func(redis.Conn) (string, error) { return "", ErrEvicts }), ErrEvicts, "what is taken")
		testkit.Equal(t, time.Since(began).Round(time.Microsecond), time.Millisecond, "time")
		testkit.Equal(t, ended.Load(), dialsOfFirst, "dials that have ended")
		s.leads.to = "another"
		dials.Store(0)
		testkit.Is(t, s.take(t.Context(), func(redis.Conn) (string, error) { return "", ErrEvicts }), ErrEvicts, "what is taken")
		testkit.Equal(t, dials.Load(), 1, "dials of an address that has led to another process")
	})
}

// A connection that was left for another process must lead to no master, whether the address leads to that process or back.
func TestAConnectionThatIsLeft(t *testing.T) {
	const one, another, third = "11111111", "22222222", "33333333"
	for _, turns := range [][]string{{one, another}, {third, one, another, one}, {another, one, one}} {
		s := &server{opts: options{timeout: time.Second}, leads: leads{leave: func(string, error) {}}}
		for _, to := range turns {
			before, _ := s.leads.now()
			if to == before {
				s.leads.two = ErrInvalid // and then it leads to one
			}
			testkit.Got(s.leads.turn(to, before, s.leads.two))(t)
		}
		s.left(testkit.Pipe(func(c net.Conn) { canned.Serve(c, replies(canned.Bulk("run_id:"+one+"\r\nrole:master\r\n"))) }), one)
		_, two := s.leads.now()
		testkit.Equal(t, fmt.Sprint(two), fmt.Sprint(s.twoMasters(one, another)), fmt.Sprint("refused after ", turns))
	}
}

// A pool that bounds its connections gives an idle one that serves. If none does, it dials, once.
func TestAPoolThatBoundsItsConnections(t *testing.T) {
	for role, dials := range map[string]int{"master": 2, "slave": 3} {
		dialed := 0
		pool := &redis.Pool{MaxIdle: 2, MaxActive: 20, Dial: func() (redis.Conn, error) {
			if dialed++; dialed > 10 {
				return nil, errors.New("again and again")
			}
			return testkit.Pipe(func(c net.Conn) { canned.Serve(c, replies(canned.Bulk("run_id:x\r\nrole:"+role+"\r\n"))) }), nil
		}}
		idle := []redis.Conn{pool.Get(), pool.Get()}
		for _, c := range idle {
			testkit.Must(t, c.Close())
		}
		s := &server{opts: options{timeout: time.Second}, pool: pool}
		c := testkit.Got(s.takeOrDial(t.Context()))(t)
		testkit.Equal(t, dialed, dials, "dials, where the idle ones lead to a "+role)
		testkit.Equal(t, pool.ActiveCount()-pool.IdleCount(), 1, "connections in use")
		kill(c)
		testkit.Must(t, pool.Close())
	}
}

// Idle connections of a pool may lead to the master of before a failover: none is asked, and they stay the application's. A
// pool that bounds its connections gives what it has, until one leads to no replica.
func TestIdleConnectionsToTheOldMaster(t *testing.T) {
	const info = "run_id:%s\r\nmaster_replid:h\r\nrole:%s\r\nconnected_slaves:%d\r\n"
	is := func(run, role string, replicas int) func([]string) string {
		return replies(canned.Bulk(fmt.Sprintf(info, run, role, replicas)))
	}
	const idle = 3
	for what, c := range map[string]struct {
		old       func([]string) string
		maxActive int
		kept      int
	}{
		"a replica":             {old: is("old", "slave", 0), kept: idle},
		"without its replica":   {old: is("old", "master", 0), kept: idle},
		"one that stands still": {old: silent, kept: idle},
		"a replica, in a pool that bounds its connections": {old: is("old", "slave", 0), maxActive: 20},
	} {
		for how, dials := range map[string]func(*redis.Pool, func() (redis.Conn, error)){
			"by Dial": func(p *redis.Pool, dial func() (redis.Conn, error)) { p.Dial = dial },
			"by DialContext": func(p *redis.Pool, dial func() (redis.Conn, error)) {
				p.DialContext = func(context.Context) (redis.Conn, error) { return dial() }
			},
		} {
			testkit.Bubble(t, what+", "+how, func(t *testing.T) {
				serve := c.old
				pool := &redis.Pool{MaxIdle: idle, MaxActive: c.maxActive}
				dials(pool, func() (redis.Conn, error) {
					to := serve
					return testkit.Pipe(func(c net.Conn) { canned.Serve(c, to) }), nil
				})
				defer pool.Close()
				var conns []redis.Conn
				for range idle {
					conns = append(conns, pool.Get())
				}
				for _, c := range conns {
					testkit.Must(t, c.Close())
				}
				serve = is("new", "master", 1)
				s := &server{opts: options{timeout: time.Second, failover: 1, conns: 1}, pool: pool}
				s.opts.OneProcess, s.leads.leave = true, func(string, error) {}
				began := time.Now()
				err := s.take(t.Context(), func(c redis.Conn) (string, error) {
					t.Cleanup(func() { c.Close() })
					replies, errs := redisconn.RoundTrip(t.Context(), c, time.Second, []any{"INFO"})
					found := redisconn.ReadInfo(replies[0])
					if errs[0] == nil && found["role"] == "master" && found.Number("connected_slaves") == 0 {
						errs[0] = redisconn.ErrNotReplicated
					}
					return found["run_id"], cmp.Or(errs[0], s.Refuse(found))
				})
				testkit.Must(t, err)
				testkit.Equal(t, s.leads.to, "new", "the process")
				testkit.Equal(t, time.Since(began).Round(time.Millisecond), 0, "time")
				testkit.Equal(t, pool.IdleCount(), c.kept, "idle connections that are left")
			})
		}
	}
}

// A replica is no place for subscriptions either: it may follow another master than the address leads to later.
func TestMessagesComeFromNoReplica(t *testing.T) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return testkit.Pipe(func(c net.Conn) { canned.Serve(c, replies(canned.Bulk("run_id:x\r\nrole:slave\r\n"))) }), nil
	}}
	s := &server{opts: options{timeout: time.Second, conns: 1}, pool: pool}
	_, _, err := s.takeForMessages(t.Context())
	testkit.Is(t, err, ErrReplica, "a connection for messages")
}

// Where the master may fail over, an address that leads to a replica, or to two masters, is dialed again soon: locks that
// are held need the next master before their deadlines.
func TestHowOftenAFailoverIsLookedFor(t *testing.T) {
	fails, stays := server{opts: options{failover: 1}}, server{}
	for _, c := range []struct {
		err     error
		longest time.Duration
	}{
		{fails.passing(ErrReplica), 1500 * time.Millisecond},
		{fails.passing(redis.Error("MASTERDOWN Link with MASTER is down")), 1500 * time.Millisecond},
		{fails.twoMasters("a", "b"), 1500 * time.Millisecond},
		{stays.passing(ErrReplica), 7500 * time.Millisecond},
		{stays.twoMasters("a", "b"), 7500 * time.Millisecond},
	} {
		var backoff redisconn.Backoff
		var longest time.Duration
		rng := rand.New(rand.NewPCG(1, 2))
		for range 100 {
			longest = max(longest, backoff.Next(c.err, rng))
		}
		testkit.Check(t, longest <= c.longest && longest > c.longest/3,
			"%v: the longest pause is %v, want %v", c.err, longest, c.longest)
	}
}

// Sentinel names one master.
func TestSentinelIsNoBalancer(t *testing.T) {
	n := testkit.Opened(Open("redis+sentinel://a:26379/m?failover=1"))(t)
	two, err := n.server.DialAgain(t.Context(), "run", 1)
	testkit.Check(t, two == nil && err == nil, "it is asked again: %v, %v", two, err)
}

// twoFakes starts two masters, a and b.
func twoFakes(t *testing.T) map[string]*fakeredis.Master {
	masters := map[string]*fakeredis.Master{"a": fakeredis.New(time.Now, 1), "b": fakeredis.New(time.Now, 2)}
	for _, m := range masters {
		t.Cleanup(m.Stop)
	}
	return masters
}

// leading returns a server whose dials lead to those masters, one letter each, and counts the dials.
func leading(masters map[string]*fakeredis.Master, to string, maxActive int) (*server, *atomic.Int32) {
	dials := new(atomic.Int32)
	s := &server{opts: options{timeout: time.Second, conns: 1}, pool: &redis.Pool{MaxActive: maxActive,
		DialContext: func(context.Context) (redis.Conn, error) {
			i := dials.Add(1)
			m := masters[to[i-1:i]]
			if m == nil {
				return nil, errors.New("no route")
			}
			ours, theirs := net.Pipe()
			go m.Serve(theirs)
			return redis.NewConn(ours, time.Second, time.Second), nil
		}}}
	s.leads.leave = func(string, error) {}
	return s, dials
}

// What other connections have found meanwhile counts.
func TestWhereAnAddressLeads(t *testing.T) {
	old, newer := errors.New("found before"), errors.New("found meanwhile")
	for what, c := range map[string]struct {
		to     string
		now    error
		before string
		two    error
		ok     bool
		err    error
		leaves string
	}{
		"the first connection":                      {ok: true, leaves: "b"},
		"the same process":                          {to: "b", before: "b", ok: true},
		"another process":                           {to: "a", before: "a", ok: true, leaves: "b"},
		"another connection has found it":           {to: "b", before: "a", ok: true},
		"another connection has found a third":      {to: "c", before: "a"},
		"one process again":                         {to: "b", now: old, before: "b", two: old, ok: true, leaves: "b"},
		"two masters meanwhile":                     {to: "b", now: newer, before: "b", err: newer},
		"two masters again":                         {to: "b", now: newer, before: "b", two: old, err: newer},
		"another connection has found one, the one": {to: "b", before: "b", two: old, ok: true},
	} {
		var leaves string
		l := &leads{to: c.to, two: c.now, leave: func(unless string, _ error) { leaves += unless }}
		ok, err := l.turn("b", c.before, c.two)
		testkit.Check(t, ok == c.ok && err == c.err && leaves == c.leaves, "%s: %v, %v, left unless %q", what, ok, err, leaves)
		to, two := l.now()
		testkit.Check(t, !ok || to == "b" && two == nil, "%s: leads to %q, %v", what, to, two)
	}
}
