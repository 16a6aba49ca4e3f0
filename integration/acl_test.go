package integration_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// recipeRules returns the rules of the user "app" in the recipe, with that password instead of the
// recipe's, and without its keys.
func recipeRules(t *testing.T, password string) (rules []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/deploy/users.acl")
	must(t, err)
	for line := range strings.Lines(string(text)) {
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
	list, err := redis.String(m.Do("CLIENT", "LIST", "TYPE", "NORMAL"))
	must(t, err)
	for line := range strings.Lines(list) {
		if strings.Contains(line, "user=app") {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// A forbidden name costs other locks nothing, whether they are held or still to come. Not parallel:
// the test counts goroutines.
func TestAForbiddenNameTakesNoNodeDown(t *testing.T) {
	const lease = 3 * time.Second
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
			if !errors.As(err, &failed) || !failed.Permanent() || !strings.Contains(err.Error(), "NOPERM") {
				t.Errorf("%s: Lock: %v: want NOPERM, at once and permanent", kind, err)
			}
		})
		s.connections = fmt.Sprint(connections(t, s.Masters[0]))
		sides[kind] = s
	}
	goroutines := runtime.NumGoroutine()

	for end := time.Now().Add(3 * lease / 2); time.Now().Before(end); pass(t, 20*time.Millisecond) {
		for _, s := range sides {
			unlock(t, lock(t, s.locker, "app:new"))
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines+20 {
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
	for kind, s := range sides {
		if after := fmt.Sprint(connections(t, s.Masters[0])); after != s.connections {
			t.Errorf("%s: connections %s, before %s: want the same", kind, after, s.connections)
		}
		for _, one := range s.held {
			if !one.Valid() {
				t.Errorf("%s: %q: %v", kind, one.Names(), one.Err())
			}
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
	eventually(t, patience, func() bool { return l.Stats().Unannounced == 3 }, "three masters that could not publish")
	held = lock(t, l, "app:1") // the keys are gone
	must(t, held.Downgrade(short(t)))
	must(t, l.ForceUnlock(short(t), "app:1"))
}
