package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestHold(t *testing.T) {
	for _, n := range []int{3, 5} {
		for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
			t.Run(fmt.Sprintf("%s of %d", kind, n), func(t *testing.T) {
				t.Parallel()
				f := fleet(t, n)
				const name, lease = "invoice:42", 10 * time.Second
				mine := open(t, f, by, quorum.WithLease(lease))
				others := open(t, f, by, quorum.WithLease(lease))

				first := lock(t, mine, name)
				written := func() bool { return len(leftOver(t, f.Masters, name)) == n }
				eventually(t, patience, written, "the lock stands on every master")
				for i, hash := range keys(t, f.Masters, name) {
					if len(hash) != 1 || hash[first.Owner()] != "1" {
						t.Errorf("master %d: %v, want one field %s = 1", i, hash, first.Owner())
					}
					ttl, err := redis.Int64(f.Masters[i].Do("PTTL", name))
					must(t, err)
					if ttl <= 0 || ttl > lease.Milliseconds() {
						t.Errorf("master %d: PTTL %d, want above 0, at most %d", i, ttl, lease.Milliseconds())
					}
				}

				_, err := others.TryLock(t.Context(), name)
				wantErr(t, err, quorum.ErrNotAcquired, quorum.ErrHeld)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := make(chan *quorum.Lock, 1)
				go func() {
					second, err := others.Lock(ctx, name)
					if err != nil {
						t.Errorf("waiting for the lock: %v", err)
					}
					got <- second
				}()
				select {
				case <-got:
					t.Fatal("two hold the lock")
				case <-time.After(200 * time.Millisecond): // nothing must happen while the lock is held
				}
				if !first.Valid() {
					t.Errorf("not valid while held: %v", first.Err())
				}

				unlock(t, first)
				var second *quorum.Lock
				select {
				case second = <-got:
				case <-time.After(patience):
				}
				if second == nil {
					t.Fatal("no waiter got the lock after it was unlocked")
				}
				if second.Token() <= first.Token() || second.Owner() == first.Owner() {
					t.Errorf("token %d then %d, owner %s then %s: want a higher token and another owner",
						first.Token(), second.Token(), first.Owner(), second.Owner())
				}
				unlock(t, second)
				third := lock(t, mine, name)
				if third.Token() <= second.Token() {
					t.Errorf("token %d then %d: want a higher one", second.Token(), third.Token())
				}
				unlock(t, third)
				noLocks(t, f.Masters)
			})
		}
	}
}

// Each waiter on a node gets exactly one message when the lock becomes free there.
func TestReleaseIsPublishedOncePerNode(t *testing.T) {
	for _, n := range []int{3, 5} {
		for kind, by := range map[string]opener{"redlock": redlock.Open, "multilock": multilock.Open} {
			t.Run(fmt.Sprintf("%s of %d", kind, n), func(t *testing.T) {
				t.Parallel()
				f := fleet(t, n)
				locker := open(t, f, by)
				for _, name := range []string{"plain", "with{tag}brace"} {
					messages := listen(t, f.Masters, name)
					held := lock(t, locker, name)
					inner := lockWithin(t, held.Context(), locker, name)
					unlock(t, inner)
					unlock(t, held)
					noKeys(t, f.Masters, name)
					for i, got := range messages() {
						if len(got) != 1 || got[0] != "0" {
							t.Errorf("%s: master %d published %q, want one 0", name, i, got)
						}
					}
				}
			})
		}
	}
}

// listen subscribes to a lock's channel on each master, as a Redisson client does. The function
// that it returns unsubscribes, and returns the messages.
func listen(t *testing.T, ms []*redistest.Master, name string) (heard func() [][]string) {
	t.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	if name == "with{tag}brace" {
		channel = "redisson_lock__channel:" + name
	}
	var conns []redis.PubSubConn
	for _, m := range ms {
		raw, err := redis.Dial("tcp", m.Addr(), redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience))
		must(t, err)
		t.Cleanup(func() { raw.Close() })
		c := redis.PubSubConn{Conn: raw}
		must(t, c.Subscribe(channel))
		if s, ok := c.Receive().(redis.Subscription); !ok || s.Channel != channel {
			t.Fatalf("not subscribed to %s: %v", channel, s)
		}
		conns = append(conns, c)
	}
	return func() [][]string {
		all := make([][]string, len(ms))
		for i, c := range conns {
			const last = "nothing comes after this"
			do(t, ms[i], "PUBLISH", channel, last)
			for {
				message, ok := c.Receive().(redis.Message)
				if !ok {
					t.Fatalf("master %d: the subscription broke", i)
				}
				if string(message.Data) == last {
					break
				}
				all[i] = append(all[i], string(message.Data))
			}
		}
		return all
	}
}

// One call takes several names under one token, all or none.
func TestHoldSeveralNames(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	mine, others := open(t, f, redlock.Open), open(t, f, redlock.Open)
	single := lock(t, others, "b")
	_, err := mine.TryLock(t.Context(), "a", "b", "c")
	wantErr(t, err, quorum.ErrHeld)
	noKeys(t, f.Masters, "a", "c")
	unlock(t, single)
	noKeys(t, f.Masters, "b") // a master that has not run the release yet would refuse, until the renewal asks it again

	all := lock(t, mine, "a", "b", "c")
	if all.Token() <= single.Token() {
		t.Errorf("token %d after %d", all.Token(), single.Token())
	}
	for _, name := range all.Names() {
		eventually(t, patience, func() bool { return len(leftOver(t, f.Masters, name)) == 3 },
			name+" stands on every master")
		counter, err := redis.Uint64(f.Masters[0].Do("GET", counterOf(name)))
		must(t, err)
		if counter < all.Token() {
			t.Errorf("%s: counter %d is below the token %d", name, counter, all.Token())
		}
	}
	unlock(t, all)
	noLocks(t, f.Masters)
}
