package scripts_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
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
			return piped{master, pipeTo(t, master)}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s := start(t)
			seen := map[string]int{}
			for seed := range uint64(300) {
				compareRun(t, s, seed, seen)
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
			t.Log(seen)
			for _, what := range []string{"acquire granted", "acquire held", "acquire alone", "release found", "release missing", "short"} {
				if seen[what] < 20 {
					t.Errorf("%q happened %d times", what, seen[what])
				}
			}
		})
	}
}

func compareRun(t *testing.T, s server, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	before, calls := randomRun(rng)
	for i := range before {
		before[i] = resolve(t, s, before[i])
	}
	prepare := func() {
		mustDo(t, s, "FLUSHALL")
		for _, command := range before {
			mustDo(t, s, command...)
		}
	}
	run := func(name string, args []any) any {
		reply, err := s.Do(append([]any{name}, args...)...)
		if err != nil && !errors.As(err, new(redis.Error)) {
			t.Fatal(err)
		}
		if err != nil {
			return err
		}
		return reply
	}
	single := func(call scripts.Call) any {
		reply := run(call.Command(nil, true, connArgs(call)))
		if err, refused := reply.(error); refused {
			return err.Error()
		}
		typed, err := call.Parse(reply)
		if err != nil {
			t.Fatal(err)
		}
		return typed
	}

	prepare()
	got, want := make([]any, len(calls)), make([]any, len(calls))
	var late []int // left undone by the run: later than the others
	raw := run(scripts.RunCommand(nil, calls, true, connArgs(calls[0])))
	if raw == any(int64(1)) {
		seen["short"]++
	}
	reply, err := calls[0].ParseRun(raw, len(calls))
	if err != nil {
		t.Fatal(err)
	}
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
	after := snapshot(t, s)

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
		if !alike(got[i], want[i]) {
			t.Errorf("call %d of %d: %+v, want %+v", i, len(calls), got[i], want[i])
		}
	}
	sameSnapshot(t, snapshot(t, s), after, slack)
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

// alike compares replies, and their times to live to within the slack.
func alike(got, want any) bool {
	g, ok := got.(scripts.Reply)
	w, ok2 := want.(scripts.Reply)
	if !ok || !ok2 {
		return reflect.DeepEqual(got, want)
	}
	if within(g.Acquire.Wait, w.Acquire.Wait) || within(w.Acquire.Wait, g.Acquire.Wait) {
		g.Acquire.Wait = w.Acquire.Wait
	}
	return reflect.DeepEqual(g, w)
}

// randomRun returns a state and calls that share a run, which meet everything that may be at a name.
func randomRun(rng *rand.Rand) (before [][]any, calls []scripts.Call) {
	before = state(ready)
	if rng.IntN(10) == 0 {
		before = state(markerOf(admitted(time.Duration(rng.IntN(3)-1)*20*time.Second, false)))
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
				before = append(before, holds(name, rival, "1"), expire(name, lease))
			case 1:
				before = append(before, holds(name, owner.String(), "1"), expire(name, lease))
			case 2:
				before = append(before, holds(name, rival, "1"))
			case 3:
				before = append(before, []any{"HSET", name, "x", "1", "y", "2"})
			}
			switch rng.IntN(7) {
			case 0:
				before = append(before, counted(name, fmt.Sprint(rng.IntN(300))))
			case 1:
				before = append(before, counted(name, "x"))
			case 2:
				before = append(before, []any{"SET", "quorumlock:released:" + owner.String(), "1"})
			}
		}
		switch {
		case !releases:
			calls = append(calls, scripts.Acquire(scripts.AcquireArgs{Names: names(name), Owner: owner, Level: 1,
				Lease: scripts.ToMillis(lease), List: ours, Seed: 100 + rng.Uint64N(100)}))
		case usual:
			before = append(before, holds(name, owner.String(), "1"), expire(name, lease))
			fallthrough
		default:
			calls = append(calls, scripts.Release(names(name), owner, 0))
		}
	}
	return before, calls
}
