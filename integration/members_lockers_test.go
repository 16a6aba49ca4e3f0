package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	admin "github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
)

// Two clients name the same masters, but one uses another database on some of them: these are other members. Each
// client reaches only the masters with which it would hold alongside the other.
func TestMembersOfOtherDatabasesNeverBothHold(t *testing.T) {
	t.Parallel()
	neverBothHold(t, [3]string{"", "&db=1", "&db=2"})
}

func TestMembersOfOtherPrefixesNeverBothHold(t *testing.T) {
	t.Parallel()
	neverBothHold(t, [3]string{"", "&prefix=team", "&prefix=teams"})
}

func neverBothHold(t *testing.T, queries [3]string) {
	const maxLease, all = 10 * time.Second, -1
	for _, c := range []struct {
		what       string
		one, two   [3]int // the databases, or the prefixes
		exists     bool   // both clients were told so
		away, gone int    // the master that the first client cannot reach, and the second
	}{
		{"one wrong", [3]int{0, 0, 0}, [3]int{0, 0, 1}, true, 0, 1},
		{"one wrong, and none is 0", [3]int{1, 1, 1}, [3]int{1, 1, 2}, true, 0, 1},
		{"two wrong", [3]int{0, 0, 0}, [3]int{0, 1, 1}, false, all, all},
		{"two wrong, and the masters know no list of the other's", [3]int{0, 1, 1}, [3]int{0, 0, 0}, false, all, all},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, 3)
			urls := func(of [3]int, away int) (urls addresses) {
				for i, m := range f.Masters {
					address := m.Addr()
					if i == away {
						address = "127.0.0.1:1"
					}
					urls = append(urls, fmt.Sprintf("redis://%s?name=%c%s", address, 'a'+i, queries[of[i]]))
				}
				return urls
			}
			open := func(urls addresses, exists bool) *quorum.Locker {
				opts := []quorum.Option{quorum.WithNodeOptions(node.WithoutQuarantine())}
				if exists {
					opts = append(opts, quorum.WithoutFounding())
				}
				return careful(t, urls, redlock.Open, maxLease, opts...)
			}
			unlock(t, lock(t, open(urls(c.one, all), false), "job")) // founds the deployment
			held := lock(t, open(urls(c.one, c.away), c.exists), "job")
			_, _ = open(urls(c.two, all), c.exists).TryLock(t.Context(), "another job") // it may mark its masters
			other, err := open(urls(c.two, c.gone), c.exists).TryLock(t.Context(), "job")
			testkit.Require(t, err != nil, "two hold: %v and %v", held.Valid(), other)
			want(t, err, quorum.ErrMembership)
		})
	}
}

// Two lists share one master. Each has a majority without it, and it tells neither of the other, because one has a
// prefix. So their locks of one name are two, at keys that are not shared.
func TestLocksOfTwoPrefixesShareNoKey(t *testing.T) {
	t.Parallel()
	f := fleet(t, 5)
	urls := func(first int, query string) (urls addresses) {
		for _, m := range f.Masters[first : first+3] {
			urls = append(urls, "redis://"+m.Addr()+query)
		}
		return urls
	}
	keys := func() map[string]bool {
		all := map[string]bool{}
		for i, m := range f.Masters {
			found := testkit.Got(redis.Strings(m.Do("KEYS", "*")))(t)
			for _, key := range found {
				all[fmt.Sprint(i, " ", key)] = strings.HasPrefix(key, "team:quorumlock:")
			}
		}
		return all
	}
	use := func(l *quorum.Locker) {
		lock(t, l, "job", "team:job")
		testkit.Got(l.RWLock("read").RLock(t.Context()))(t)
		testkit.Got(semaphore.New(l, "slots", 2).Acquire(t.Context(), 2))(t)
	}
	use(open(t, urls(0, ""), redlock.Open))
	var before map[string]bool
	testkit.Eventually(t, "each of the three masters has all keys, also one whose reply came after the majority's", func() bool {
		before = keys()
		for key := range before {
			for i := range 3 {
				if _, has := before[fmt.Sprint(i, key[1:])]; !has {
					return false
				}
			}
		}
		return true
	})
	use(open(t, urls(2, "?prefix=team"), redlock.Open)) // the same names, at once: they are other locks
	after := keys()
	for key := range before {
		_, stays := after[key]
		testkit.Check(t, !before[key] && stays, "without a prefix: %q", key)
	}
	for key, hasPrefix := range after {
		_, isOld := before[key]
		testkit.Check(t, isOld || hasPrefix, "with the prefix: %q", key)
	}
	_, err := open(t, urls(0, ""), redlock.Open).TryLock(t.Context(), "team:quorumlock:lock:job")
	want(t, err, quorum.ErrInvalid, `"team:quorumlock:lock:"`)
}

// An address that leads to another process on each host makes no list with others: two hosts would have one list, and
// not its masters.
func TestMembersOfSeveralHosts(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	const shared = "redis://192.0.2.1" // nobody answers there
	for list, refused := range map[[2]string]bool{
		{"redis://localhost:1", shared}:                       true,
		{"redis://localhost.localdomain:1", shared}:           true,
		{"redis://127.0.0.2:1/3", shared + "?name=b"}:         true,
		{"redis://[::1]:1", shared}:                           true,
		{"redis://[::ffff:127.0.0.1]:1", shared}:              true,
		{"redis://0.0.0.0:1", shared}:                         true,
		{"redis://LOCALHOST:1", shared}:                       true,
		{"redis://ip6-loopback:1", shared}:                    true,
		{"unix:///run/a.sock", shared}:                        true,
		{"redis://localhost:1?name=a", shared}:                false,
		{"redis://LOCALHOST:1?name=a", "redis://localhost:2"}: false,
		{"redis://192.0.2.2:1?name=localhost:1", shared}:      false,
		{"redis://localhost:1", "unix:///run/b"}:              false,
		{"redis://localhost:1", "redis://127.0.0.1:2?name=b"}: false,
	} {
		l, err := multilock.Open(list[:], quorum.WithNodeOptions(node.WithTimeout(10*time.Millisecond)))
		if err == nil {
			must(t, l.Close())
		}
		testkit.Check(t, refused == errors.Is(err, quorum.ErrInvalid), "%q: %v", list, err)
	}
	named, err := multilock.New([]*node.Node{overPool(t, f.Masters[0], nil, node.WithName("a")), openNode(t, f.Masters[1].URL())})
	must(t, err)
	must(t, named.Close())
	if !redistest.Has(redistest.ClientInfo) {
		return // without it such a node needs a name
	}
	var mixed []*node.Node
	for i, wrap := range []func(redis.Conn) redis.Conn{sameAddressOf, nil, nil} {
		mixed = append(mixed, overPool(t, f.Masters[i], wrap))
	}
	l := testkit.Opened(redlock.New(mixed))(t)
	want(t, testkit.ErrorOf(l.Lock(t.Context(), "bridge")), quorum.ErrInvalid)
}

// forgetLease is the max lease of the deployments whose masters forget their list: a restart takes
// less than half of it.
const forgetLease = 3 * time.Second

// A member's name moves to a process that was never a member. One client still reaches the old process: by an address
// that it has looked up before, or over a connection that lives on. Its holder renews there, while the new process waits in
// quarantine and then grants the lock to another: two hold. If the old process is stopped first, as docs/operations.md says,
// its holder is lost before that.
func TestMembersNameThatMovesWhileTheOldProcessLives(t *testing.T) {
	t.Parallel()
	for how, test := range map[string]struct {
		stopped bool
		two     bool
	}{"the old process lives on": {false, true}, "the old process is stopped first": {true, false}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			masters := fleet(t, 4).Masters
			a, b, next, c := masters[0].URL()+"?name=a", masters[1].URL()+"?name=b", masters[2].URL()+"?name=b", masters[3].URL()+"?name=c"
			for _, url := range []string{a, b, c} {
				must(t, admin.AdmitMembers(t.Context(), openNode(t, url, node.WithMaxLease(forgetLease)), []string{"a", "b", "c"}))
			}
			cutOff := "redis://127.0.0.1:1?name=c" // the network between this client and c is down
			urls := addresses{a, b, cutOff}
			first := lock(t, careful(t, urls, redlock.Open, forgetLease, quorum.WithLease(forgetLease)), "held")

			if test.stopped {
				must(t, masters[1].Kill())
			}
			moved := addresses{a, next, c}
			other := careful(t, moved, redlock.Open, forgetLease, quorum.WithLease(forgetLease))
			began := time.Now()
			second := lock(t, other, "held")
			took := time.Since(began)
			testkit.Check(t, took >= forgetLease/2, "the new process granted after %v", took)
			if two := first.Valid() && second.Valid(); two != test.two {
				t.Errorf("after %v two hold: %v, want %v", time.Since(began), two, test.two)
			} else if two && second.Token() <= first.Token() {
				t.Errorf("token %d after %d", second.Token(), first.Token())
			}
			unlock(t, second)
			_ = first.Unlock(t.Context())
		})
	}
}
