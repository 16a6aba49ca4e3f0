package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

// redisson is a peer as Redisson's RedissonLock is on the wire: its scripts of tryLockInnerAsync and unlockInnerAsync, a thread's
// id as the field, the channel and payload of LockPubSub.
type redisson struct {
	t       *testing.T
	masters []*redistest.Master
	id      string
}

const (
	redissonLock = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end;
return redis.call('pttl', KEYS[1]);`
	redissonUnlock = `if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0;
else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end; return nil;`
)

// tryLock asks one master. It returns what is left of another's lease, or −1 when it holds the lock.
func (r *redisson) tryLock(m *redistest.Master, name string) int64 {
	r.t.Helper()
	reply := do(r.t, m, "EVAL", redissonLock, 1, name, 30000, r.id)
	if reply == nil {
		return -1
	}
	return reply.(int64)
}

func (r *redisson) unlock(name string) {
	r.t.Helper()
	for _, m := range r.masters {
		do(r.t, m, "EVAL", redissonUnlock, 2, name, redissonChannel(name), "0", 30000, r.id)
	}
}

func redissonChannel(name string) string { return "redisson_lock__channel:{" + name + "}" }

func TestARedissonReleaseWakesUs(t *testing.T) {
	f := fleet(t, 3)
	peer := &redisson{t, f.Masters, "8743c9c0-0795-4907-87fd-6c719a6b4586:17"}
	for _, m := range f.Masters {
		if left := peer.tryLock(m, "k"); left != -1 {
			t.Fatalf("the peer is refused: %d", left)
		}
	}
	w := wait(t, t.Context(), open(t, f, redlock.Open, patient), f.Masters, "k")
	since := time.Now()
	peer.unlock("k")
	woken(t, w, since, wakes)
}

// A Java waiter subscribes, tries again, and waits for a message on each master's channel: its payload must be 0.
func TestOurReleaseWakesARedissonWaiter(t *testing.T) {
	f := fleet(t, 3)
	peer := &redisson{t, f.Masters, "8743c9c0-0795-4907-87fd-6c719a6b4586:17"}
	held := lock(t, open(t, f, redlock.Open), "k")
	grantedByAll(t, f.Masters, "k")
	locked := make(chan error, len(f.Masters))
	for _, m := range f.Masters {
		c, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(soon))
		must(t, err)
		defer c.Close()
		channel := redis.PubSubConn{Conn: c}
		must(t, channel.Subscribe(redissonChannel("k")))
		if _, ok := channel.Receive().(redis.Subscription); !ok {
			t.Fatal("the peer cannot subscribe")
		}
		if left := peer.tryLock(m, "k"); left <= 0 {
			t.Fatalf("we hold the lock, and the peer is told %d", left)
		}
		go func() {
			message, ok := channel.Receive().(redis.Message)
			switch {
			case !ok || string(message.Data) != "0":
				locked <- fmt.Errorf("the peer heard %+v", message)
			case peer.tryLock(m, "k") != -1:
				locked <- fmt.Errorf("the peer was woken and is refused by %s", m.Addr())
			default:
				locked <- nil
			}
		}()
	}
	unlock(t, held)
	for range f.Masters {
		must(t, <-locked)
	}
	peer.unlock("k")
	noLocks(t, f.Masters)
}
