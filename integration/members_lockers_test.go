package integration_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// While a locker with the old list may hold a lock, show names it, and commit refuses. Neither counts a
// locker that has the new list, nor one that is long gone.
func TestMembersCommitKnowsTheLockers(t *testing.T) {
	t.Parallel()
	o := newOperator(t, interruptedLease)
	r := rosterOf(t, abcd...)
	r.giveAll(t, interruptedLease, abc...)
	do(t, r.masters["d"], "FLUSHALL")
	held := func(label string, names []string) {
		t.Helper()
		l, err := listOpen(t, redlock.Open, interruptedLease, r.of(names...), quorum.WithLabel(label))
		must(t, err)
		_, err = l.Lock(t.Context(), label)
		must(t, err)
	}
	held("with the old list", abc)
	o.does(t, "members add", r.of("d", "a", "b", "c")...)
	held("with the new list", abcd)
	do(t, r.masters["a"], "SET", "quorumlock:locker:gone", `{"host":"gone","pid":7}`, "PX", 2000) // of 45.8 s

	self := fmt.Sprintf("pid %d", os.Getpid())
	holds(t, o.does(t, "members show", r.of(abcd...)...), "that have another list than {a, b, c, d}", self, "with the old list", "Only lockers that lock")
	code, out := o.says(t, "members commit", r.of(abcd...)...)
	if code != 1 {
		t.Fatalf("it commits: %s", out)
	}
	holds(t, out, self, "with the old list", "-yes commits at once")
	lacks(t, out, "with the new list", "gone")
	isAccepted(t, redlock.Open, interruptedLease, r.of(abc...)) // nothing was written
	holds(t, o.does(t, "members commit -yes", r.of(abcd...)...), "The members are {a, b, c, d}")
}

// With all lockers moved, commit needs no word.
func TestMembersCommitNeedsNoWord(t *testing.T) {
	t.Parallel()
	o := newOperator(t, interruptedLease)
	r := rosterOf(t, abcd...)
	for _, name := range abcd {
		r.give(t, name, interruptedLease, abc, abcd)
	}
	holds(t, o.does(t, "members show", r.of(abcd...)...), "No locker has locked lately")
	l, err := listOpen(t, redlock.Open, interruptedLease, r.of(abcd...)) // one that is closed counts no longer
	must(t, err)
	_, err = l.Lock(t.Context(), "held")
	must(t, err)
	holds(t, o.does(t, "members show", r.of(abcd...)...), "All lockers that have locked lately have {a, b, c, d}")
	o.does(t, "members commit", r.of(abcd...)...)
}

// forgetLockers makes the masters forget the lockers, as if all had stopped a while ago.
func (r *roster) forgetLockers(t *testing.T) {
	t.Helper()
	for _, m := range r.masters {
		keys, err := redis.Strings(m.Do("KEYS", "quorumlock:locker:*"))
		if err != nil { // it is dead
			continue
		}
		for _, key := range keys {
			do(t, m, "DEL", key)
		}
	}
}

func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q: %s", part, text)
		}
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("it has %q: %s", part, text)
		}
	}
}
