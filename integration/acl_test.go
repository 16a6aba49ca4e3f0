package integration_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	operators "github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
)

// recipeRules returns the rules of the user "app" in the recipe, with that password instead of the
// recipe's, and without its keys.
func recipeRules(t *testing.T, password string) (rules []string) {
	t.Helper()
	for line := range strings.Lines(testkit.Read(t, "../docs/deploy/users.acl")) {
		if of, found := strings.CutPrefix(strings.TrimSpace(line), "user app "); found {
			for rule := range strings.FieldsSeq(of) {
				switch {
				case strings.HasPrefix(rule, ">"):
					rules = append(rules, "resetpass", ">"+password)
				case !strings.HasPrefix(rule, "~"):
					rules = append(rules, rule)
				}
			}
			return rules
		}
	}
	t.Fatal("no user app in the recipe")
	return nil
}

// may gives the user "app" the rights of the recipe, with these keys alongside the library's own.
func may(t *testing.T, f *redistest.Fleet, patterns ...string) {
	t.Helper()
	rules := append(recipeRules(t, "right"), "~quorumlock:*")
	for _, p := range patterns {
		rules = append(rules, "~"+p)
	}
	onAll(t, f, redistest.SetUser("app", rules...)...)
}

// asApp addresses the masters as the user "app".
func asApp(f *redistest.Fleet) addresses {
	var urls addresses
	for _, m := range f.Masters {
		urls = append(urls, "redis://app:right@"+m.Addr())
	}
	return urls
}

// connections lists the ids of the connections of user "app" that carry calls.
func connections(t *testing.T, m *redistest.Master) (ids []string) {
	t.Helper()
	list := testkit.Got(redis.String(m.Do("CLIENT", "LIST", "TYPE", "NORMAL")))(t)
	for line := range strings.Lines(list) {
		if id, rest, _ := strings.Cut(line, " "); strings.Contains(rest, "user=app") {
			ids = append(ids, id)
		}
	}
	return ids
}

// A forbidden name costs other locks nothing, whether they are held or still to come. Not parallel:
// the test counts goroutines.
func TestAForbiddenNameTakesNoNodeDown(t *testing.T) {
	const lease = 8 * time.Second
	type side struct {
		*redistest.Fleet
		locker      *quorum.Locker
		held        []*quorum.Lock
		connections string
	}
	sides := map[string]*side{}
	for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
		s := &side{Fleet: fleet(t, 3)}
		may(t, s.Fleet, "app:*")
		s.locker = open(t, asApp(s.Fleet), by, quorum.WithLease(lease))
		for i := range 10 {
			s.held = append(s.held, lock(t, s.locker, fmt.Sprintf("app:held %d", i)))
		}
		took(t, "Lock", soon/2, func() {
			_, err := s.locker.Lock(short(t), "other:bad")
			var failed *node.Error
			testkit.Check(t, errors.As(err, &failed) && failed.Permanent() && strings.Contains(err.Error(), "NOPERM"),
				"%s: Lock: %v: want NOPERM, at once and permanent", kind, err)
		})
		s.connections = fmt.Sprint(connections(t, s.Masters[0]))
		sides[kind] = s
	}
	goroutines := runtime.NumGoroutine()

	for end := time.Now().Add(lease + time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, s := range sides {
			unlock(t, lock(t, s.locker, "app:new"))
		}
	}
	n := runtime.NumGoroutine()
	testkit.Check(t, n <= goroutines+20, "%d goroutines, before %d", n, goroutines)
	for kind, s := range sides {
		after := fmt.Sprint(connections(t, s.Masters[0]))
		testkit.Check(t, after == s.connections, "%s: connections %s, before %s: want the same", kind, after, s.connections)
		for _, one := range s.held {
			testkit.Check(t, one.Valid(), "%s: %q: %v", kind, one.Names(), one.Err())
			unlock(t, one)
		}
		noLocks(t, s.Masters)
	}
}

// A user without the channels unlocks: the keys are gone. Its waiters poll, and Stats has the messages that were
// not sent.
func TestAReleaseThatMayNotBePublished(t *testing.T) {
	redistest.Need(t, redistest.ACLChannels)
	t.Parallel()
	f := fleet(t, 3)
	may(t, f, "app:*")
	onAll(t, f, "ACL", "SETUSER", "app", "resetchannels")
	l := open(t, asApp(f), redlock.Open)
	held := lock(t, l, "app:1")
	grantedByAll(t, f.Masters, "app:1")
	unlock(t, held)
	eventually(t, "three masters that could not publish", func() bool { return l.Stats().Unannounced == 3 })
	held = lock(t, l, "app:1") // the keys are gone
	must(t, held.Downgrade(short(t)))
	must(t, operators.ForceUnlock(short(t), l, "app:1"))
}

// Ready fails if nothing would be granted, with what the masters say. None of the errors advises what they would
// refuse, too.
func TestReadyWhereMastersRefuseWrites(t *testing.T) {
	f := fleet(t, 3)
	refuse := func(replicas string) { onAll(t, f, "CONFIG", "SET", "min-replicas-to-write", replicas) }
	refuse("1")
	locker := open(t, f, redlock.Open)
	err := locker.Ready(t.Context())
	want(t, err, quorum.ErrUnavailable, "NOREPLICAS")
	lacks(t, err.Error(), "admit")
	refuse("0")
	unlock(t, lock(t, locker, "a"))
	refuse("1")
	want(t, locker.Ready(t.Context()), quorum.ErrUnavailable, "NOREPLICAS") // of masters that were used
	refuse("0")
	must(t, locker.Ready(t.Context()))
}

// A user that may neither write nor read identities locks as ever. Its locks have none, and the log
// says nothing.
func TestUserWithoutIdentities(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	may(t, f)
	onAll(t, f, "ACL", "SETUSER", "app", "resetkeys", "~quorumlock:marker", "~quorumlock:counter:*",
		"~quorumlock:released:*", "~quorumlock:writer:*", "~quorumlock:forced:*", "~app:*")
	logger := quorum.WithLogger(slog.New(slog.NewTextHandler(saying{t}, nil)))
	anonymous, known := open(t, asApp(f), redlock.Open, logger), open(t, f, redlock.Open, logger, quorum.WithLabel("nightly"))

	held := lock(t, anonymous, "app:a")
	grantedByAll(t, f.Masters, "app:a")
	for _, l := range []*quorum.Locker{known, open(t, asApp(f), redlock.Open, logger)} {
		took(t, "TryLock", soon/2, func() {
			want(t, testkit.ErrorOf(l.TryLock(t.Context(), "app:a")), quorum.ErrHeld, "held by another (", held.Owner())
		})
	}
	state, err := operators.Inspect(t.Context(), known, "app:a")
	testkit.Check(t, err == nil && state.Owner == held.Owner() && state.Identity == (quorum.Identity{}), "%+v, %v", state, err)
	unlock(t, held)

	held = lock(t, known, "app:a")
	eventually(t, "an identity on each master", func() bool {
		return !slices.ContainsFunc(f.Masters, func(m *redistest.Master) bool { return len(do(t, m, "KEYS", "quorumlock:locker:*").([]any)) != 1 })
	})
	want(t, testkit.ErrorOf(anonymous.TryLock(t.Context(), "app:a")), quorum.ErrHeld, "held by another (", held.Owner())
	state, err = operators.Inspect(t.Context(), anonymous, "app:a")
	testkit.Check(t, err == nil && state.Owner == held.Owner() && state.Identity == (quorum.Identity{}), "%+v, %v", state, err)
	another := open(t, f, redlock.Open, logger)
	poll.Until(patience, func() bool { // a TryLock waits only briefly for who the holder is
		_, err = another.TryLock(t.Context(), "app:a")
		return err == nil || strings.Contains(err.Error(), "held by nightly on ")
	})
	want(t, err, quorum.ErrHeld, "held by nightly on ", known.Identity().String())
	unlock(t, held)
}

// A server loads its append-only file with the rights of the user "default" (redis#14541, valkey#3983), also if that is off.
// What that user may not write is not there after a restart, and a lock whose depth alone was written is without end.
func TestARestartLosesNothingWithTheUsersOfTheRecipe(t *testing.T) {
	redistest.Need(t, redistest.ACLChannels)
	t.Parallel()
	first, _, _ := strings.Cut(testkit.Read(t, "../docs/deploy/users.acl"), "\n")
	rules, isOff := strings.CutPrefix(first, "user default off")
	testkit.Require(t, isOff, "the recipe begins with %q", first)
	args := append([]string{"--appendonly", "yes", "--appendfsync", "always", "--user", "default", "on", "nopass"}, strings.Fields(rules)...)
	args = append(append(args, "+ping", "--user", "app", "on"), recipeRules(t, "right")...)
	f := fleet(t, 1, append(args, "~*")...)
	l := open(t, asApp(f), redlock.Open)
	held := lock(t, l, "a")
	inner := testkit.Got(l.Lock(held.Context(), "a"))(t)
	must(t, inner.Unlock(short(t)))
	reader := testkit.Got(l.RWLock("b").RLock(short(t)))(t)
	must(t, f.Masters[0].Kill())
	must(t, f.Masters[0].Start())
	unlock(t, held)
	unlock(t, reader)
}

// saying is a log that fails the test if it says anything.
type saying struct{ *testing.T }

func (s saying) Write(text []byte) (int, error) {
	s.Errorf("the log says: %s", text)
	return len(text), nil
}
