package integration_test

import (
	"context"
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

// may gives the user "app" the rights of the recipe, with these keys beside the library's own.
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

// forbidden fails the test unless an attempt at the name ends at once with the servers' refusal.
func forbidden(t *testing.T, l *quorum.Locker, name string) {
	t.Helper()
	took(t, "Lock", soon/2, func() {
		_, err := l.Lock(short(t), name)
		var failed *node.Error
		if !errors.As(err, &failed) || !failed.Permanent() || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("Lock(%q): %v: want NOPERM, and permanent", name, err)
		}
	})
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
		forbidden(t, s.locker, "other:bad")
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

// A master that refused to run the script holds nothing, so it is sent no release.
func TestAForbiddenAttemptIsSentNoRelease(t *testing.T) {
	redistest.Need(t, redistest.RejectedCalls)
	t.Parallel()
	f := fleet(t, 1)
	may(t, f, "app:*")
	l := open(t, asApp(f), redlock.Open)
	unlock(t, lock(t, l, "app:1"))
	forbidden(t, l, "other:bad")
	unlock(t, lock(t, l, "app:1")) // follows any release that was on its way
	if n := statOf(t, f.Masters[0], "commandstats", "cmdstat_evalsha", "rejected_calls="); n != "1" {
		t.Errorf("the server rejected %s calls, want the one attempt's", n)
	}
}

// statOf returns one number from a line of INFO.
func statOf(t *testing.T, m *redistest.Master, section, line, field string) string {
	t.Helper()
	text, err := redis.String(m.Do("INFO", section))
	must(t, err)
	for l := range strings.Lines(text) {
		if numbers, found := strings.CutPrefix(strings.TrimSpace(l), line+":"); found {
			for n := range strings.SplitSeq(numbers, ",") {
				if value, found := strings.CutPrefix(n, field); found {
					return value
				}
			}
		}
	}
	return ""
}

// A release that the servers forbid is carried out once they allow it again. Until then it delays
// no other call.
func TestAReleaseThatIsForbiddenIsTriedAgain(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	f := fleet(t, 3)
	may(t, f, "app:*", "other:*")
	l := open(t, asApp(f), redlock.Open, quorum.WithLease(lease))
	kept, given := lock(t, l, "app:kept"), lock(t, l, "other:given")
	grantedByAll(t, f.Masters, "other:given")
	onAll(t, f, "PERSIST", "other:given") // only the release can take it away
	may(t, f, "app:*")
	err := given.Unlock(short(t))
	want(t, err, quorum.ErrUnavailable, "NOPERM")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Unlock waited: %v", err)
	}

	end := time.Now().Add(3 * lease / 2)
	for time.Now().Before(end) {
		unlock(t, lock(t, l, "app:new"))
		pass(t, 20*time.Millisecond)
	}
	if !kept.Valid() {
		t.Errorf("another lock: %v", kept.Err())
	}
	grantedByAll(t, f.Masters, "other:given")

	may(t, f, "app:*", "other:*")
	eventually(t, patience, func() bool { return len(leftOver(t, f.Masters, "other:given")) == 0 },
		"the release carried out")
	unlock(t, lock(t, open(t, f, redlock.Open), "other:given"))
	unlock(t, kept)
}

// A user that loses the right to one name keeps all other locks, though their renewals travel with
// the refused one.
func TestAForbiddenNameAmongManyRenewals(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	f := fleet(t, 3)
	may(t, f, "app:*", "other:*")
	lost := make(chan string, 100)
	l := open(t, asApp(f), redlock.Open, quorum.WithLease(lease),
		quorum.WithHooks(quorum.Hooks{Lost: func(lock *quorum.Lock, _ error) { lost <- lock.Names()[0] }}))
	bad := lock(t, l, "other:bad")
	var held []*quorum.Lock
	for i := range 19 {
		held = append(held, lock(t, l, fmt.Sprintf("app:%d", i)))
	}
	may(t, f, "app:*")
	pass(t, 2*lease) // renewals of two leases
	areRenewed(t, lease, held...)
	for _, one := range held {
		unlock(t, one)
	}
	if err := bad.Err(); !errors.Is(err, quorum.ErrLost) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("the lock that may not be renewed: %v: want lost, and why", err)
	}
	if n := len(lost); n != 1 {
		t.Errorf("%d locks were lost, want one", n)
	}
}

func readLock(l *quorum.Locker, ctx context.Context, names ...string) (*quorum.Lock, error) {
	return l.RWLock(names[0]).RLock(ctx)
}

// The release of a reader that the servers forbid within the script is carried out once they allow it again.
func TestAReadersReleaseThatIsForbiddenIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	may(t, f, "app:*")
	held, err := readLock(open(t, asApp(f), redlock.Open), t.Context(), "app:1")
	must(t, err)
	eventually(t, patience, func() bool { return len(allLocks(t, f.Masters)) == 3 }, "the grants of all masters")
	onAll(t, f, "PERSIST", "app:1") // only the release can take it away
	onAll(t, f, "ACL", "SETUSER", "app", "-zrem")
	want(t, held.Unlock(short(t)), quorum.ErrUnavailable, "release: ")
	onAll(t, f, "ACL", "SETUSER", "app", "+zrem")
	noLocks(t, f.Masters)
}

// A renewal that the server forbids within the script is a failure, which may pass, and no word of another holder.
func TestARenewalThatIsForbiddenWithinTheScript(t *testing.T) {
	t.Parallel()
	for command, take := range map[string]func(*quorum.Locker, context.Context, ...string) (*quorum.Lock, error){
		"pexpire": (*quorum.Locker).Lock, "hexists": (*quorum.Locker).Lock, "zscore": readLock,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			const lease = 6 * time.Second
			f := fleet(t, 3)
			may(t, f, "app:*")
			l := open(t, asApp(f), redlock.Open, quorum.WithLease(lease))
			held, err := take(l, t.Context(), "app:1")
			must(t, err)
			eventually(t, patience, func() bool { return len(allLocks(t, f.Masters)) == 3 }, "the grants of all masters")
			onAll(t, f, "ACL", "SETUSER", "app", "-"+command)
			eventually(t, patience, func() bool {
				failed := 0
				for _, n := range l.Stats().Nodes {
					if n.RenewalsFailed > 0 {
						failed++
					}
				}
				return failed >= 2
			}, "a renewal fails")
			onAll(t, f, "ACL", "SETUSER", "app", "+"+command)
			outlives(t, held, lease, 0.6)
		})
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
