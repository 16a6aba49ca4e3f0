package inmemory_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/inmemory"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Lockers over one master are like processes, by either rule.
func TestLockersExcludeEachOther(t *testing.T) {
	nodes := start(t)
	a := testkit.Opened(redlock.New(nodes))(t)
	b, err := multilock.New(nodes, quorum.WithRetry(time.Hour, time.Hour)) // only a message wakes those who wait
	testkit.Must(t, err)
	defer b.Close()
	testkit.Must(t, b.Ready(t.Context()))

	first := testkit.Got(a.Lock(t.Context(), "x", "y"))(t)
	testkit.Is(t, testkit.ErrorOf(b.TryLock(t.Context(), "y")), quorum.ErrHeld, "TryLock of a held name")
	next := make(chan *quorum.Lock, 1)
	go func() {
		lock, err := b.Lock(t.Context(), "x")
		testkit.Check(t, err == nil, "%v", err)
		next <- lock
	}()
	testkit.Eventually(t, "b waits", func() bool { return b.Stats().Waiting == 1 })
	testkit.Must(t, first.Unlock(t.Context()))
	select {
	case second := <-next:
		testkit.Check(t, second.Token() > first.Token(), "token %d after %d", second.Token(), first.Token())
	case <-time.After(quorum.DefaultLease / 2):
		t.Fatal("the release woke nobody")
	}

	fixed := testkit.Got(a.With(quorum.WithFixedLease(50*time.Millisecond)).Lock(t.Context(), "z"))(t)
	<-fixed.Context().Done()
	testkit.Is(t, fixed.Err(), quorum.ErrLost, "after the lease")
	after := testkit.Got(b.Lock(t.Context(), "z"))(t)
	testkit.Check(t, after.Token() > fixed.Token(), "token %d after %d", after.Token(), fixed.Token())
}

// Many lockers of one process have the lock in turn, each with a greater token, next to calls that give up.
func TestManyLockers(t *testing.T) {
	nodes := start(t)
	var holders atomic.Int32
	last := uint64(0) // the lock guards it
	var all sync.WaitGroup
	for range 20 {
		locker := testkit.Opened(redlock.New(nodes))(t)
		for range 5 {
			all.Go(func() {
				ctx := testkit.Within(t, time.Millisecond)
				if lock, err := locker.Lock(ctx, "x"); err == nil {
					testkit.Is(t, lock.Unlock(t.Context()), nil, "Unlock")
				}
			})
			all.Go(func() {
				testkit.Is(t, locker.Do(t.Context(), func(_ context.Context, lock *quorum.Lock) error {
					testkit.Check(t, holders.Add(1) == 1, "two holders")
					defer holders.Add(-1)
					testkit.Check(t, lock.Token() > last, "token %d after %d", lock.Token(), last)
					last = lock.Token()
					return nil
				}, "x"), nil, "Do")
			})
		}
	}
	all.Wait()
}

// A master that is closed first ends the calls that wait, and refuses others.
func TestCloseOfTheMaster(t *testing.T) {
	nodes := start(t)
	locker := testkit.Opened(redlock.New(nodes))(t)
	held := testkit.Got(locker.Lock(t.Context(), "x"))(t)
	waiting := make(chan error)
	go func() {
		_, err := locker.Lock(t.Context(), "x")
		waiting <- err
	}()
	testkit.Eventually(t, "a call waits", func() bool { return locker.Stats().Waiting == 1 })
	testkit.Must(t, nodes[0].Close())
	testkit.Is(t, <-waiting, node.ErrClosed, "the call that waited")
	testkit.Is(t, held.Unlock(t.Context()), node.ErrClosed, "Unlock")
	testkit.Is(t, testkit.ErrorOf(locker.TryLock(t.Context(), "y")), node.ErrClosed, "TryLock")
}

// What a process had locked is free for the next one at once, with a higher token.
func TestTokensRiseOverRestarts(t *testing.T) {
	last := uint64(0)
	for range 3 {
		master := testkit.Got(inmemory.Master())(t)
		locker := testkit.Got(redlock.New([]*node.Node{master}))(t)
		lock := testkit.Got(locker.TryLock(t.Context(), "x"))(t)
		testkit.Check(t, lock.Token() > last, "token %d after %d", lock.Token(), last)
		last = lock.Token()
		locker.Close()
		master.Close()
	}
}

// Names that are free leave their counters, of which there are 65,536.
func TestMemoryIsBounded(t *testing.T) {
	nodes := start(t)
	locker := testkit.Opened(redlock.New(nodes))(t)
	for call := range 2_000 {
		names := make([]string, 50)
		for i := range names {
			names[i] = fmt.Sprintf("name:%d:%d", call, i)
		}
		lock := testkit.Got(locker.Lock(t.Context(), names...))(t)
		testkit.Must(t, lock.Unlock(t.Context()))
	}
	c := testkit.Opened(inside.Of(nodes[0]).Server.TakeConn(t.Context()))(t)
	for prefix, most := range map[string]int{"name:": 0, "quorumlock:released:": 0, "quorumlock:writer:": 0, "quorumlock:l": 1,
		"quorumlock:counter:999": 11} { // 999, and 9990 to 9999
		keys := testkit.Got(redis.Strings(c.Do("KEYS", prefix+"*")))(t)
		testkit.Check(t, len(keys) <= most, "%d keys begin with %s", len(keys), prefix)
	}
}

func TestOptionsOfANode(t *testing.T) {
	master := testkit.Opened(inmemory.Master(node.WithName("north"), node.WithMaxLease(time.Minute)))(t)
	locker := testkit.Opened(redlock.New([]*node.Node{master}, quorum.WithLease(time.Minute)))(t)
	testkit.Got(locker.TryLock(t.Context(), "x"))(t)
	testkit.Equal(t, master.Name(), "north", "the name")
	testkit.Is(t, testkit.ErrorOf(inmemory.Master(node.WithMaxLease(0))), node.ErrInvalid, "a max lease of 0")
	_, err := inmemory.Master(nil)
	testkit.Check(t, errors.Is(err, node.ErrInvalid) && strings.HasSuffix(err.Error(), ": an option is nil"), "%v", err)
}

// A service that gives its options to any locker has a lock here, too.
func TestWithoutFounding(t *testing.T) {
	locker, err := redlock.New(start(t), quorum.WithoutFounding())
	testkit.Must(t, err)
	defer locker.Close()
	testkit.Must(t, locker.Ready(t.Context()))
	lock, err := locker.TryLock(t.Context(), "x")
	testkit.Must(t, err)
	testkit.Must(t, lock.Unlock(t.Context()))
}

func TestSeveralMasters(t *testing.T) {
	nodes := slices.Concat(start(t), start(t), start(t))
	for what, open := range map[string]func() (*quorum.Locker, error){
		"redlock":   func() (*quorum.Locker, error) { return redlock.New(nodes) },
		"multilock": func() (*quorum.Locker, error) { return multilock.New(nodes[:2]) },
	} {
		_, err := open()
		testkit.Check(t, errors.Is(err, quorum.ErrInvalid) && strings.Contains(err.Error(), "must be the only one"), "%s: %v", what, err)
	}
}

// Two processes have the same two servers and a master each, and each reaches one of the servers: both would have a
// majority. So a Locker takes such a master alone; the control may take it beside others.
func TestAMasterBesideServers(t *testing.T) {
	servers := standin.ForTest(t, 2)
	open := func(master *node.Node, cutOff int) (*quorum.Locker, error) {
		nodes := []*node.Node{master}
		for i, url := range servers.URLs() {
			dial := new(net.Dialer).DialContext
			if i == cutOff {
				dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
			}
			n := testkit.Opened(node.Open(url, node.WithDialer(dial), node.WithName(fmt.Sprint("server ", i)), node.WithTimeout(10*time.Second),
				node.WithoutQuarantine()))(t)
			nodes = append(nodes, n)
		}
		locker, err := redlock.New(nodes)
		if err == nil {
			t.Cleanup(func() { locker.Close() })
		}
		return locker, err
	}
	_, err := open(start(t)[0], -1)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid) && strings.Contains(err.Error(), "must be the only one"), "%v", err)

	var locks []*quorum.Lock
	for cutOff := range 2 {
		master := start(t, inside.Option[node.Option](func(s *inside.Settings) { s.Alone = false }))[0]
		testkit.Got(open(master, -1))(t)
		testkit.Eventually(t, "the list on the master", func() bool {
			report, err := operator.Check(t.Context(), master)
			return err == nil && report.Member != ""
		})
		locker := testkit.Got(open(master, cutOff))(t)
		lock := testkit.Got(locker.TryLock(t.Context(), "x"))(t)
		locks = append(locks, lock)
	}
	testkit.Check(t, locks[0].Valid() && locks[1].Valid(), "the control has no two holders: %v, %v", locks[0].Err(), locks[1].Err())
}

// start returns a master that the test's end closes.
func start(t *testing.T, opts ...node.Option) []*node.Node {
	t.Helper()
	master := testkit.Opened(inmemory.Master(opts...))(t)
	return []*node.Node{master}
}
