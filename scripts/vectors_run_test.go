package scripts_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// alone is the reply to a call that the run left undone, and that must be sent alone.
type alone struct{}

// together is a run of several calls. The reply is one for each: a typed reply, or alone.
func together(v vector, calls ...scripts.Call) vector {
	v.call, v.shared = calls[0], calls
	v.parse = func(reply any) (any, error) {
		run, err := calls[0].ParseRun(reply, len(calls))
		if err != nil {
			return nil, err
		}
		each := make([]any, len(calls))
		for i, call := range calls {
			r, isAlone, err := run.Of(i, call)
			switch {
			case err != nil:
				return nil, err
			case isAlone:
				each[i] = alone{}
			case call.IsRelease():
				each[i] = r.Release
			default:
				each[i] = r.Acquire
			}
		}
		return each, nil
	}
	return v
}

// crowdedSlot is a slot of the semaphore that a test's subscriber waits for.
const crowdedSlot = "quorumlock:slot:12:crowded"

func each(replies ...any) []any { return replies }

// by is an acquire's owner.
func by(owner string) asking {
	return func(a *scripts.AcquireArgs) { a.Owner = scripts.OwnerOf(owner) }
}

func acquiresVectors() []vector {
	const other, third = "locker:3", "locker:4"
	ask := func(name, owner string, changes ...asking) scripts.Call {
		return acquire(append(changes, named(name), by(owner))...)
	}
	k, l, m := ask("k", me), ask("l", other, seeded(200)), ask("m", third, seeded(300))
	allGranted := each(granted(100), granted(200), granted(300))
	nobody := each(alone{}, alone{}, alone{})
	taken := state(ready, holds("l", rival, "1"), expire("l", 5*time.Second))
	fine := []check{hash("k", me, "1"), hash("m", third, "1"), ttl("k", lease), ttl("m", lease), counter("k", "100"), counter("m", "300")}
	spared := func(more ...check) []check { return append(fine[:len(fine):len(fine)], more...) }
	around := func(reply any) []any { return each(granted(100), reply, granted(300)) }
	return []vector{
		together(vector{name: "fresh", before: state(ready), want: allGranted,
			after: spared(hash("l", other, "1"), ttl("l", lease), counter("l", "200"))}, k, l, m),
		together(vector{name: "counters that stand higher", before: state(ready, counted("k", "1000"), counted("m", "299")),
			want: each(granted(1001), granted(200), granted(300)), after: []check{counter("k", "1001"), counter("l", "200"), counter("m", "300")}}, k, l, m),
		together(vector{name: "a counter with more digits than its seed", before: state(ready, counted("l", "1000")), want: around(granted(1001)),
			after: spared(counter("l", "1001"))}, k, l, m),
		together(vector{name: "a counter at its seed", before: state(ready, counted("l", "200")), want: around(granted(201)),
			after: spared(counter("l", "201"))}, k, l, m),
		together(vector{name: "large tokens", before: state(ready, counted("k", "1800000000000001")), want: each(granted(1800000000000002), granted(1800000000000007)),
			after: []check{counter("k", "1800000000000002"), counter("l", "1800000000000007")}},
			ask("k", me, seeded(1800000000000000)), ask("l", other, seeded(1800000000000007))),

		together(vector{name: "held", before: taken, want: around(held(5 * time.Second)), after: spared(hash("l", rival, "1"), ttl("l", 5*time.Second),
			absent(counterOf("l")))}, k, l, m),
		together(vector{name: "held, with a waiter", before: state(ready, holds("awaited", rival, "1"), expire("awaited", lease)),
			want: each(granted(100), scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: lease, Waiting: 1, Holder: rival})}, k, ask("awaited", other)),
		together(vector{name: "held, a slot, with a waiter for the semaphore", before: state(ready, holds(crowdedSlot, rival, "1"), expire(crowdedSlot, lease)),
			want: each(granted(100), scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: lease, Waiting: 1, Holder: rival})}, k, ask(crowdedSlot, other)),
		together(vector{name: "held, a name with a brace, with a waiter", before: state(ready, holds("await{ed", rival, "1"), expire("await{ed", lease)),
			want: each(granted(100), scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: lease, Waiting: 1, Holder: rival})}, k, ask("await{ed", other)),
		together(vector{name: "held without a time to live", before: state(ready, holds("l", rival, "1")), want: around(alone{}),
			after: spared(hash("l", rival, "1"), ttl("l", -1))}, k, l, m),
		together(vector{name: "held by this owner", before: state(ready, holds("l", other, "1"), expire("l", 5*time.Second), counted("l", "7")),
			want: around(alone{}), after: spared(ttl("l", 5*time.Second), text(counterOf("l"), "7"))}, k, l, m),
		together(vector{name: "all held", before: state(ready, holds("k", rival, "1"), expire("k", lease), holds("l", rival, "1"), expire("l", lease)),
			want: each(held(lease), held(lease)), untouched: true, twice: true}, k, l),
		together(vector{name: "a hash of an application", before: state(ready, []any{"HSET", "l", "a", "1", "b", "2"}, expire("l", lease)), want: around(alone{}),
			after: spared(hash("l", "a", "1", "b", "2"))}, k, l, m),
		together(vector{name: "a key of another type", before: state(ready, []any{"SET", "l", "x"}), want: around(alone{}), after: spared(text("l", "x"))}, k, l, m),
		together(vector{name: "one name twice", before: state(ready), want: each(granted(100), alone{}, granted(300)), after: fine},
			k, ask("k", other, seeded(200)), m),
		together(vector{name: "two names that share a counter", before: state(ready), want: each(granted(100), alone{}, granted(300)),
			after: []check{hash(near, me, "1"), absent(neighbour), counter(near, "100")}}, ask(near, me), ask(neighbour, other, seeded(200)), m),
		together(vector{name: "held next to a name that shares its counter", before: state(ready, holds(near, rival, "1"), expire(near, lease)),
			want: each(held(lease), granted(200)), after: []check{hash(neighbour, other, "1"), counter(near, "200")}}, ask(near, me), ask(neighbour, other, seeded(200))),
		together(vector{name: "released already", before: state(ready, []any{"SET", "quorumlock:released:" + other, "1"}), want: around(alone{}),
			after: spared(absent("l", counterOf("l")))}, k, l, m),
		together(vector{name: "a counter that is no number", before: state(ready, counted("l", "x")), want: around(alone{}),
			after: spared(absent("l"), text(counterOf("l"), "x"))}, k, l, m),
		together(vector{name: "a counter that is NaN", before: state(ready, counted("l", "nan")), want: around(alone{}),
			after: spared(absent("l"), text(counterOf("l"), "nan"))}, k, l, m),
		together(vector{name: "a counter at its end", before: state(ready, counted("l", "4503599627370495")), want: around(alone{}),
			after: spared(absent("l"))}, k, l, m),
		together(vector{name: "a counter of another type", before: state(ready, []any{"RPUSH", counterOf("l"), "x"}), want: around(alone{}),
			after: spared(absent("l"))}, k, l, m),

		together(vector{name: "no marker", want: nobody, untouched: true}, k, l, m),
		together(vector{name: "the marker of an earlier process", before: state(markerOf(admitted(0, true, of("other")))), want: nobody, untouched: true}, k, l, m),
		together(vector{name: "in quarantine", before: state(markerOf(admitted(20*time.Second, false))), want: nobody, untouched: true}, k, l, m),
		together(vector{name: "after the quarantine", before: state(markerOf(admitted(-time.Hour, false))), want: nobody, untouched: true}, k, l, m),
		together(vector{name: "other members", before: state(markerOf(admitted(0, true, theirMembers))), want: nobody, untouched: true}, k, l, m),
		together(vector{name: "the next members", before: state(markerOf(admitted(0, true, oursNext))), want: nobody, untouched: true}, k, l, m),
		together(vector{name: "names byte for byte", before: state(ready), want: each(granted(100), granted(200)),
			after: []check{hash("a\x00b", me, "1"), hash("a\nb", other, "1")}}, ask("a\x00b", me), ask("a\nb", other, seeded(200))),
	}
}

func releasesVectors() []vector {
	const other, third = "locker:3", "locker:4"
	release := func(name, owner string) scripts.Call {
		return scripts.Release(testkit.Names(name), scripts.OwnerOf(owner), 0)
	}
	k, l, m := release("k", me), release("l", other), release("m", third)
	heard := scripts.ReleaseReply{Found: 1, Heard: 1} // by the test
	kept := state(holds("k", me, "1"), holds("m", third, "17"))
	gone := []check{absent("k", "m", tomb)}
	return []vector{
		together(vector{name: "releases", before: append(kept, holds("l", other, "1")), want: each(heard, heard, heard),
			published: freed("{k}", "{l}", "{m}"), after: append(gone, absent("l"))}, k, l, m),
		together(vector{name: "a slot", before: append(kept, holds("quorumlock:slot:3:x", other, "1")), want: each(heard, heard),
			published: freed("{k}", "{quorumlock:slots:x}"), after: []check{absent("k", "quorumlock:slot:3:x")}}, k, release("quorumlock:slot:3:x", other)),
		together(vector{name: "one gone", before: kept, want: each(heard, scripts.ReleaseReply{}, heard), published: freed("{k}", "{m}"), after: gone}, k, l, m),
		together(vector{name: "a second time finds nothing", want: each(scripts.ReleaseReply{}, scripts.ReleaseReply{}), untouched: true}, k, l),
		together(vector{name: "one another's", before: append(kept, holds("l", rival, "1"), expire("l", lease)), want: each(heard, scripts.ReleaseReply{}, heard),
			published: freed("{k}", "{m}"), after: append(gone, hash("l", rival, "1"), ttl("l", lease))}, k, l, m),
		together(vector{name: "a key of another type", before: append(kept, []any{"SET", "l", "x"}), want: each(heard, scripts.ReleaseReply{}, heard),
			published: freed("{k}", "{m}"), after: append(gone, text("l", "x"))}, k, l, m),
		together(vector{name: "names byte for byte", before: state(holds("a\x00b{", me, "1"), holds("a\nb", other, "1")), want: each(heard, heard),
			published: freed("a\x00b{", "{a\nb}"), after: []check{absent("a\x00b{", "a\nb")}}, release("a\x00b{", me), release("a\nb", other)),
	}
}

// The server of the simulations must reply like a real one.
func TestVectorsOnFake(t *testing.T) {
	master := fakeredis.New(time.Now, 1)
	t.Cleanup(master.Stop)
	runVectors(t, newPiped(t, master))
}

// piped is a fake master behind in-memory connections.
type piped struct {
	master *fakeredis.Master
	conn   redis.Conn
}

func newPiped(t *testing.T, master *fakeredis.Master) piped {
	conn := testkit.Pipe(master.Serve)
	t.Cleanup(func() { conn.Close() })
	return piped{master, conn}
}

func (p piped) Do(args ...any) (any, error) { return p.conn.Do(args[0].(string), args[1:]...) }

func (p piped) Listen(during func()) ([]message, error) {
	return listen(testkit.Pipe(p.master.Serve), p, during)
}
