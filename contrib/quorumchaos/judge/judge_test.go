package judge

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/quorumtest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// base is the instant that tests count from.
var base = time.Now().UnixNano()

// held is a hold of a name, of which only begin and end are known, in seconds.
func held(name string, token uint64, from, to int64) history.Event {
	begin := base + from*int64(time.Second)
	return history.Event{Name: name, Owner: fmt.Sprint(token, from), Kind: history.Acquired, Token: token, Call: begin,
		Return: begin, Deadline: begin + (to-from)*int64(time.Second)}
}

// reads is held by a reader.
func reads(name string, token uint64, from, to int64) history.Event {
	e := held(name, token, from, to)
	e.Shared, e.Owner = true, "reader "+e.Owner
	return e
}

// What the judge finds, and what it does not take for a violation.
func TestJudge(t *testing.T) {
	for title, test := range map[string]struct {
		report func(j *Judge)
		want   []string // parts of the error; none for nil
	}{
		"nothing": {report: func(j *Judge) { j.Note("Kill(1)") }, want: []string{"nothing was reported"}},
		"one after the other": {report: func(j *Judge) {
			j.Add(held("a", 1, -9, -7), held("a", 2, -6, -5), held("b", 1, -9, -5))
		}},
		"two holders": {report: func(j *Judge) { j.Add(held("a", 1, -9, -5), held("a", 2, -6, -4)) },
			want: []string{"overlap", `"a"`, "token 1 ", "token 2 ", "for 1s"}},
		"readers at once": {report: func(j *Judge) { j.Add(reads("a", 1, -9, -5), reads("a", 2, -8, -4), held("a", 3, -3, -2)) }},
		"a reader of a writer's name": {report: func(j *Judge) { j.Add(held("a", 1, -9, -5), reads("a", 2, -6, -4)) },
			want: []string{"overlap", `"a"`, "for 1s"}},
		"a writer after a downgrade": {report: func(j *Judge) {
			lowers := held("a", 1, -9, -5)
			lowers.Kind, lowers.Call = history.Downgraded, base-7*int64(time.Second)
			lowers.Return = lowers.Call
			j.Add(held("a", 1, -9, -5), lowers, reads("a", 1, -6, -4), held("a", 2, -5, -3))
		}, want: []string{"overlap", "for 1s"}},
		"readers in another order than their tokens": {report: func(j *Judge) { j.Add(reads("a", 2, -9, -8), reads("a", 1, -7, -6)) }},
		"a lower token of the later of two that asked at once": {report: func(j *Judge) {
			first, second := held("a", 2, -7, -6), held("a", 1, -5, -4)
			first.Call, second.Call = base-9*int64(time.Second), base-9*int64(time.Second)
			j.Add(first, second)
		}, want: []string{"porcupine"}},
		"as many slots as there are": {report: func(j *Judge) {
			j.Semaphore("s", 2)
			j.Add(held("s:0", 1, -9, -5), held("s:1", 1, -8, -5), held("s:0", 2, -5, -4), held("s:other", 1, -8, -5))
		}},
		"more slots than there are": {report: func(j *Judge) {
			j.Semaphore("s", 2)
			j.Add(held("s:0", 1, -9, -5), held("s:1", 1, -8, -5), held("s:2", 1, -6, -4))
		}, want: []string{"crowd", "where 2 may hold"}},
		"a repeated token": {report: func(j *Judge) { j.Add(held("a", 3, -9, -7), held("a", 3, -6, -5)) },
			want: []string{"token", "given twice"}},
		"a falling token": {report: func(j *Judge) { j.Add(held("a", 4, -9, -7), held("a", 3, -6, -5)) },
			want: []string{"token", "not higher than before"}},
		"a late write": {report: func(j *Judge) {
			j.Read("r", 1, 100)
			j.Read("r", 2, 100)
			j.Wrote("r", 2, 110)
			j.Wrote("r", 1, 120)
		}, want: []string{"register: r: ", `write of "120" with token 1 was acknowledged after the write of "110" with token 2, which is higher`,
			`write of "110" with token 2 is lost`}},
		"a lost write": {report: func(j *Judge) {
			j.Wrote("r", 1, "a")
			j.Read("r", 2, "")
		}, want: []string{`read of "" with token 2, where the last acknowledged one was the write of "a" with token 1`}},
		"a resource that was there before": {report: func(j *Judge) {
			j.Read("r", 1, 100)
			j.Wrote("r", 1, 110)
			j.Read("r", 2, 110)
			j.Wrote("s", 1, 110)
		}},
		"a hold that ends before it begins": {report: func(j *Judge) {
			e := held("a", 1, -5, -4)
			e.Return = e.Call - 1
			j.Add(e)
		}, want: []string{"log", "before it was called"}},
	} {
		t.Run(title, func(t *testing.T) {
			tb := &testkit.Recorder{TB: t}
			j := New(tb)
			test.report(j)
			tb.End()
			failed := strings.Join(tb.Said, "")
			err := j.Check()
			testkit.Check(t, (err == nil) == (test.want == nil) && (err == nil || fmt.Sprint(err) == failed),
				"the test failed with %q, Check returns %v", failed, err)
			for _, part := range test.want {
				testkit.Check(t, strings.Contains(failed, part), "%q is not in %s", part, failed)
			}
		})
	}
}

// A test that has called Check decides by itself, until there is more to check.
func TestCheck(t *testing.T) {
	tb := &testkit.Recorder{TB: t}
	j := New(tb)
	j.Add(held("a", 1, -9, -5), held("a", 2, -6, -4))
	testkit.Check(t, j.Check() != nil, "nothing was found")
	tb.End()
	testkit.Check(t, !tb.Failed(), "the test still failed: %s", tb.Said)
	j.Read("r", 1, "")
	tb.End()
	testkit.Check(t, tb.Failed(), "what came after Check went unchecked")
}

// Locks of the library: unlocked, lost, entered again, of slots, of readers, downgraded, and handed over.
func TestHolds(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker := masters.Locker()
	j := New(t)
	lock := func(err error, l *quorum.Lock) *quorum.Lock {
		t.Helper()
		testkit.Must(t, err)
		return l
	}
	for range 3 {
		l, err := locker.Lock(t.Context(), "a", "b")
		ended := j.Holds(lock(err, l))
		ended()
		lock(l.Unlock(t.Context()), l)
	}
	l, err := locker.Lock(t.Context(), "a")
	ended := j.Holds(lock(err, l))
	masters.Lose(l)
	after, err := locker.Lock(t.Context(), "a")
	defer j.Holds(lock(err, after))()
	ended() // long after the end of the lock
	j.Holds(l)()

	outer, err := locker.Lock(t.Context(), "again")
	ended = j.Holds(lock(err, outer))
	inner, err := locker.Lock(outer.Context(), "again")
	j.Holds(lock(err, inner))()
	lock(inner.Unlock(t.Context()), inner)
	ended()

	one, err := semaphore.New(locker, "s", 2).Acquire(t.Context())
	defer j.Holds(lock(err, one))()
	two, err := semaphore.New(masters.Locker(), "s", 2).Acquire(t.Context())
	defer j.Holds(lock(err, two))()
	for range 2 {
		reader, err := masters.Locker().RWLock("r").RLock(t.Context())
		defer j.Holds(lock(err, reader))()
	}
	lowered, err := locker.RWLock("w").Lock(t.Context())
	ended = j.Holds(lock(err, lowered))
	testkit.Must(t, lowered.Downgrade(t.Context()))
	reader, err := masters.Locker().RWLock("w").RLock(t.Context())
	j.Holds(lock(err, reader))()
	ended()

	given, err := locker.Lock(t.Context(), "given")
	ended = j.Holds(lock(err, given))
	ticket := testkit.Got(given.HandOver(t.Context()))(t)
	taken, err := masters.Locker().TakeOver(t.Context(), ticket)
	defer j.Holds(lock(err, taken))()
	ended()
	testkit.Is(t, j.Check(), nil, "Check")
	kinds := map[history.Kind]int{}
	for _, e := range j.events {
		kinds[e.Kind]++
	}
	want := map[history.Kind]int{history.Acquired: 20, history.Released: 9, history.Lost: 2, history.Downgraded: 1}
	testkit.Equal(t, fmt.Sprint(kinds), fmt.Sprint(want), "events")
}

// What is seen when another hold begins counts, even if the end is never reported, or the lock is lost.
func TestHoldsWithoutAnEnd(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	acquire := func(size int) *quorum.Lock {
		return testkit.Got(semaphore.New(masters.Locker(), "s", size).Acquire(t.Context()))(t)
	}
	crowded := New(&testkit.Recorder{TB: t})
	crowded.Semaphore("s", 2)
	for range 3 {
		crowded.Holds(acquire(3))
	}
	err := crowded.Check()
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "crowd"), "three of two slots: %v", err)

	fine := New(t)
	lowered := testkit.Got(masters.Locker().RWLock("w").Lock(t.Context()))(t)
	fine.Holds(lowered)
	testkit.Must(t, lowered.Downgrade(t.Context()))
	var readers []*quorum.Lock
	for range 2 {
		reader := testkit.Got(masters.Locker().RWLock("w").RLock(t.Context()))(t)
		readers = append(readers, reader)
	}
	fine.Holds(readers[1])
	fine.Holds(readers[0])
	testkit.Is(t, fine.Check(), nil, "Check")
}

// A control: on masters without quarantine that forgot, two lockers hold one name, and are found.
func TestTwoHoldersOfTheLibrary(t *testing.T) {
	masters := quorumtest.Start(t, 3, node.WithoutQuarantine())
	j := New(&testkit.Recorder{TB: t})
	var ends []func()
	for range 2 {
		locker := masters.Locker(quorum.WithFixedLease(30 * time.Second))
		l := testkit.Got(locker.Lock(t.Context(), "a"))(t)
		ends = append(ends, j.Holds(l), func() { locker.Close() })
		for i := range 3 {
			masters.Forget(i)
		}
	}
	for what, end := range []func(){func() {}, ends[1], ends[0]} { // without an end, its lock lost, and its end reported
		end()
		err := j.Check()
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "overlap"), "%d: found %v", what, err)
	}
}

func TestJudgeIsSafeForConcurrentUse(t *testing.T) {
	j := New(t)
	var reporting sync.WaitGroup
	for i := range 4 {
		reporting.Go(func() {
			for k := range 50 {
				name := fmt.Sprint("r", i)
				j.Read(name, uint64(k+1), k)
				j.Wrote(name, uint64(k+1), k+1)
				j.Add(held(name, uint64(k+1), int64(k-100), int64(k-99)))
				j.Note("Kill(0)")
			}
			testkit.Is(t, j.Check(), nil, "Check")
		})
	}
	reporting.Wait()
}
