package scripts_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// A run of several calls does what the calls do one after the other. Those that it leaves undone are
// sent alone afterwards, as the pipeline does.
func TestRunsEqualSingleCalls(t *testing.T) {
	for kind, start := range map[string]func(*testing.T) server{
		"redis-server": func(t *testing.T) server { return startReal(t) },
		"fake": func(t *testing.T) server {
			master := fakeredis.New(time.Now, 1)
			t.Cleanup(master.Stop)
			return newPiped(t, master)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s := start(t)
			seen := map[string]int{}
			for seed := range uint64(200) {
				compareRun(t, s, seed, seen)
				testkit.Require(t, !t.Failed(), "with seed %d", seed)
			}
			t.Log(seen)
			for _, what := range []string{"acquire granted", "acquire held", "acquire alone", "release found", "release missing", "short"} {
				testkit.Check(t, seen[what] >= 15, "%q happened %d times", what, seen[what])
			}
		})
	}
}

// A fresh acquire and a release of one name share runs. That fails if [scripts.Acquire] or [scripts.Release] gets an argument
// more, and the places in calls.go stay what they were. The run's script knows no predecessor, token or depth.
func TestCallsOfOneNameShareRuns(t *testing.T) {
	for _, call := range []scripts.Call{acquire(), scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 0)} {
		testkit.Check(t, call.CanShare(), "%s shares no run", call.Op())
	}
	former := scripts.OwnerOf("locker:0")
	for what, asks := range map[string]asking{
		"a take-over": func(a *scripts.AcquireArgs) { a.Predecessor = &former },
		"a repair":    func(a *scripts.AcquireArgs) { a.Token, a.Seed = 7, 0 },
		"a re-entry":  func(a *scripts.AcquireArgs) { a.Depth = 2 },
	} {
		testkit.Check(t, !acquire(asks).CanShare(), "%s shares runs", what)
	}
	longer := func(a *scripts.AcquireArgs) { a.Lease = scripts.ToMillis(2 * lease) }
	elsewhere := func(a *scripts.AcquireArgs) { a.List = none }
	release := scripts.Release(testkit.Names("l"), scripts.OwnerOf(rival), 0)
	testkit.Check(t, acquire().CanShareWith(acquire(named("l"))), "two acquires do not share a run")
	testkit.Check(t, release.CanShareWith(scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 0)), "two releases do not share a run")
	for what, other := range map[string]scripts.Call{"another lease": acquire(longer), "another list": acquire(elsewhere), "a release": release} {
		testkit.Check(t, !acquire().CanShareWith(other) && !other.CanShareWith(acquire()), "%s shares a run", what)
	}
	ofNone := acquire(func(a *scripts.AcquireArgs) { a.List = nil })
	testkit.Check(t, !release.CanShareWith(ofNone), "an acquire without a list shares a release's run")
	command, args := scripts.RunCommand(nil, []scripts.Call{acquire(), acquire(named("l"))}, false, connArgs(acquire()))
	testkit.Check(t, command == "EVALSHA" && len(args[0].(string)) == 40, "a run is sent as %s %.60v", command, args[0])
}

// A release that bars its owner does so on every connection, and shares no run: these leave no tombstones.
func TestReleaseBarred(t *testing.T) {
	call := scripts.ReleaseBarred(testkit.Names("k"), scripts.OwnerOf(me), time.Second)
	testkit.Check(t, !call.CanShare(), "it shares runs")
	_, args := call.Command(nil, true, scripts.ConnArgs{Tombstone: scripts.NoTombstone})
	testkit.Equal(t, fmt.Sprint(args[len(args)-1]), "1000", "how long its tombstone lasts")
}

func compareRun(t *testing.T, s server, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	before, calls := randomRun(rng)
	prepare := func() {
		testkit.Do(t, s, "FLUSHALL")
		tableOf(t, s).prepare(strings.Join(before, "; "))
	}
	run := func(name string, args []any) any {
		reply, err := s.Do(whole(name, args)...)
		if errors.As(err, new(redis.Error)) {
			return err
		}
		testkit.Must(t, err)
		return reply
	}
	single := func(call scripts.Call) any {
		reply := run(call.Command(nil, true, connArgs(call)))
		if err, refused := reply.(error); refused {
			return err.Error()
		}
		return testkit.Got(call.Parse(reply))(t)
	}

	prepare()
	got, want := make([]any, len(calls)), make([]any, len(calls))
	var late []int // left undone by the run: later than the others
	raw := run(scripts.RunCommand(nil, calls, true, connArgs(calls[0])))
	if raw == any(int64(1)) {
		seen["short"]++
	}
	reply := testkit.Got(calls[0].ParseRun(raw, len(calls)))(t)
	for i, call := range calls {
		r, isAlone, err := reply.Of(i, call)
		switch {
		case err != nil:
			t.Fatal(err)
		case isAlone:
			late = append(late, i)
			seen["acquire alone"]++
		default:
			got[i] = r
			note(seen, call, r)
		}
	}
	for _, i := range late {
		got[i] = single(calls[i])
	}
	after := tableOf(t, s).snapshot()

	prepare()
	for i, call := range calls {
		if !slices.Contains(late, i) {
			want[i] = single(call)
		}
	}
	for _, i := range late {
		want[i] = single(calls[i])
	}
	for i := range calls {
		testkit.Check(t, alike(got[i], want[i]), "call %d of %d: %+v, want %+v", i, len(calls), got[i], want[i])
	}
	left := tableOf(t, s).changes(after, tableOf(t, s).snapshot(), false)
	testkit.Check(t, len(left) == 0, "single calls leave %q otherwise", left)
}

func note(seen map[string]int, call scripts.Call, r scripts.Reply) {
	switch {
	case call.IsRelease() && r.Release.Found == 1:
		seen["release found"]++
	case call.IsRelease():
		seen["release missing"]++
	case r.Acquire.Outcome == scripts.Granted:
		seen["acquire granted"]++
	default:
		seen["acquire held"]++
	}
}

// alike compares replies, and their times to live to within far more than a busy machine takes.
func alike(got, want any) bool {
	g, ok := got.(scripts.Reply)
	w, ok2 := want.(scripts.Reply)
	if !ok || !ok2 {
		return reflect.DeepEqual(got, want)
	}
	if a, b := g.Acquire.Wait, w.Acquire.Wait; a > 0 && b > 0 && (a-b).Abs() < 5*time.Minute {
		g.Acquire.Wait = b
	}
	if g.NotAccepted != nil && w.NotAccepted != nil { // their markers were made one after the other
		*g.NotAccepted = *w.NotAccepted
	}
	return reflect.DeepEqual(g, w)
}

// randomRun returns a state and calls that share a run, which meet everything that may be at a name.
func randomRun(rng *rand.Rand) (before []string, calls []scripts.Call) {
	before = []string{"ready"}
	if rng.IntN(10) == 0 {
		before = []string{fmt.Sprintf("marker in=%dm", (rng.IntN(3)-1)*20)}
	}
	n := 1 + rng.IntN(8)
	usual, releases := rng.IntN(4) == 0, rng.IntN(3) == 0
	for i := range n {
		name, owner := fmt.Sprint("k", i), scripts.OwnerOf(fmt.Sprint("locker:", 10+i))
		switch {
		case usual:
		case i > 0 && rng.IntN(8) == 0:
			name = fmt.Sprint("k", rng.IntN(i))
		case rng.IntN(8) == 0:
			name = []string{near, neighbour}[rng.IntN(2)]
		}
		if !usual {
			switch rng.IntN(9) {
			case 0:
				before = append(before, "lock "+name+" rival 1h")
			case 1:
				before = append(before, "lock "+name+" "+owner.String()+" 1h")
			case 2:
				before = append(before, "lock "+name+" rival")
			case 3:
				before = append(before, "HSET "+name+" x 1 y 2")
			}
			switch rng.IntN(7) {
			case 0:
				before = append(before, fmt.Sprint("counter ", name, " ", rng.IntN(300)))
			case 1:
				before = append(before, "counter "+name+" x")
			case 2:
				before = append(before, "SET ~released:"+owner.String()+" 1")
			}
		}
		switch {
		case !releases:
			calls = append(calls, scripts.Acquire(scripts.AcquireArgs{Names: testkit.Names(name), Owner: owner, Depth: 1,
				Lease: scripts.ToMillis(2 * time.Hour), List: ours, Seed: 100 + rng.Uint64N(100)}))
		case usual:
			before = append(before, "lock "+name+" "+owner.String()+" 1h")
			fallthrough
		default:
			calls = append(calls, scripts.Release(testkit.Names(name), owner, 0))
		}
	}
	return before, calls
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
