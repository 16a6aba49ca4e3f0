package redistest_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A client counts its lease from the moment it asked. The key must not expire sooner, even if the
// script had to wait for other scripts while the clock stood still.
func TestEmbeddedLeaseIsNotCutShortByWaiting(t *testing.T) {
	const lease = 10 * time.Second
	m := testkit.Embedded(t, 1).Masters[0]
	runAll(t, 4, func() error {
		_, err := m.Do("EVAL", "for i = 1, 30000 do end", 0)
		return err
	})
	for range 20 {
		asked := time.Now()
		mustDo(t, m, "EVAL", "return redis.call('SET', KEYS[1], 'v', 'PX', ARGV[1])", 1, "k", lease.Milliseconds())
		left, err := redis.Int64(m.Do("EVAL", "return redis.call('PTTL', KEYS[1])", 1, "k"))
		testkit.Must(t, err)
		counted := lease - time.Since(asked)
		if left := time.Duration(left+1) * time.Millisecond; left < counted { // +1: PTTL rounds down
			t.Fatalf("the key lives %v more, the client counts on %v", left, counted)
		}
	}
}

// runAll repeats f in n goroutines until the test ends or f fails, which fails the test.
func runAll(t *testing.T, n int, f func() error) {
	t.Helper()
	done := make(chan struct{})
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { close(done) })
	for range n {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// As in Redis, a script that has seen a key can rely on it to its end.
func TestEmbeddedKeyDoesNotExpireWithinAScript(t *testing.T) {
	m := testkit.Embedded(t, 1).Masters[0]
	const script = `
		redis.call('SET', KEYS[1], 'v', 'PX', 1)
		local spun = 0
		for i = 1, 300000 do spun = spun + i end
		return redis.call('EXISTS', KEYS[1])`
	began := time.Now()
	exists, err := redis.Int(m.Do("EVAL", script, 1, "k"))
	testkit.Must(t, err)
	if took := time.Since(began); took < 2*time.Millisecond {
		t.Fatalf("the script took %v, too short to show anything", took)
	}
	testkit.Check(t, exists == 1, "the key expired within the script that set it")
	testkit.Eventually(t, "the key gone", func() bool { return mustDo(t, m, "GET", "k") == "" })
}

// A client of a master that crashes loses its connection. It never gets an error reply: that would
// mean that the server looked at the command and refused it.
func TestEmbeddedKillAndStartGiveClientsNoErrorReplies(t *testing.T) {
	m := testkit.Embedded(t, 1).Masters[0]
	runAll(t, 32, func() error { return firstErrorReply(m) })
	for range 50 {
		testkit.Must(t, m.Kill())
		testkit.Must(t, m.Start())
		mustDo(t, m, "PING")
	}
}

// firstErrorReply runs scripts on one connection until the connection breaks or a script is
// refused.
func firstErrorReply(m *redistest.Master) error {
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(time.Second))
	if err != nil {
		return nil
	}
	defer conn.Close()
	for range 20 {
		_, err := conn.Do("EVAL", "redis.call('INCR', KEYS[1]) return redis.call('INFO')", 1, "k")
		var reply redis.Error
		if errors.As(err, &reply) {
			return reply
		}
		if err != nil {
			return nil
		}
	}
	return nil
}
