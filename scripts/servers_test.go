package scripts_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listener is a master that implements server for the vectors. One connection serves all commands: a machine that tracks
// connections has no room for one each.
type listener struct {
	*redistest.Master
	conn redis.Conn
}

// startReal starts a redis-server, or skips the test.
func startReal(t *testing.T) listener {
	t.Helper()
	m := testkit.Real(t, 1).Masters[0]
	const bound = 20 * time.Second // as Master.Do has
	conn := testkit.Opened(redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(bound), redis.DialWriteTimeout(bound)))(t)
	return listener{m, conn}
}

func (l listener) Do(args ...any) (any, error) { return l.conn.Do(args[0].(string), args[1:]...) }

func (l listener) Listen(during func()) ([]message, error) {
	conn, err := redis.Dial("tcp", l.Addr(), redis.DialReadTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	return listen(conn, l, during)
}

// listen returns what is published to a subscriber on conn while during runs.
func listen(conn redis.Conn, s testkit.Doer, during func()) (messages []message, err error) {
	const end = "the test's end"
	subscriber := redis.PubSubConn{Conn: conn}
	defer subscriber.Close()
	if err := subscriber.PSubscribe("*"); err != nil {
		return nil, err
	}
	// The scripts count the subscribers of a channel, which are waiters, and no subscribers of
	// patterns.
	if err := subscriber.Subscribe(scripts.Channel("awaited"), scripts.Channel("quorumlock:slot:12:crowded"), scripts.Channel("await{ed"),
		"team:"+scripts.Channel("heard")); err != nil {
		return nil, err
	}
	for range 5 {
		if err, ok := subscriber.Receive().(error); ok {
			return nil, err
		}
	}
	during()
	if _, err := s.Do("PUBLISH", end, ""); err != nil {
		return nil, err
	}
	for {
		switch m := subscriber.Receive().(type) {
		case error:
			return nil, m
		case redis.Message:
			if m.Channel == end {
				return messages, leave(subscriber)
			}
			if m.Pattern != "" { // each comes by the pattern, and some to the subscriber of the channel, too
				messages = append(messages, message{m.Channel, string(m.Data)})
			}
		}
	}
}

// leave ends the subscription. It waits until the server no longer counts the subscriber: a
// server may notice a closed connection late.
func leave(subscriber redis.PubSubConn) error {
	if err := errors.Join(subscriber.Unsubscribe(), subscriber.PUnsubscribe()); err != nil {
		return err
	}
	for {
		switch m := subscriber.Receive().(type) {
		case error:
			return m
		case redis.Subscription:
			if m.Kind == "punsubscribe" { // the later of the two
				return nil
			}
		}
	}
}

// userWithout returns a connection of a user that may do all but what the rule forbids.
func userWithout(t *testing.T, s listener, rules ...string) redis.Conn {
	t.Helper()
	testkit.Do(t, s, redistest.SetUser("app", append([]string{"reset", "on", ">word", "~*", "&*", "+@all"}, rules...)...)...)
	c := testkit.Opened(redis.Dial("tcp", s.Addr(), redis.DialUsername("app"), redis.DialPassword("word")))(t)
	_, err := c.Do("EXISTS", "k") // what it may
	testkit.Must(t, err)
	return c
}

// A release of two names is not told if one message is not.
func TestAUserWithOneChannel(t *testing.T) {
	redistest.Need(t, redistest.ACLChannels)
	s, both := startReal(t), scripts.Release(testkit.Names("k", "l"), scripts.OwnerOf(me), 0)
	barring := connArgs(both)
	barring.Tombstone = int64(30000)
	for _, may := range []string{"k", "l"} {
		c := userWithout(t, s, "resetchannels", "&"+scripts.Channel(may))
		tableOf(t, s).prepare("lock k me; lock l me")
		name, args := both.Command(nil, true, barring)
		reply, err := c.Do(name, args...)
		got, parsed := both.Parse(reply)
		testkit.Check(t, err == nil && parsed == nil && got.Release == scripts.ReleaseReply{Found: 2, Heard: -1},
			"%q may be told: %v (%v), want both found, and that nobody was told", may, reply, err)
	}
}

// After the first grant that follows a quarantine, grants do not read the clock.
func TestGrantsDoNotReadTheClock(t *testing.T) {
	s := startReal(t)
	tableOf(t, s).prepare("marker in=-1h")
	testkit.Do(t, s, "CONFIG", "RESETSTAT")
	for _, name := range []string{"k", "l", "m"} {
		reply, err := redis.Int64(send(s, acquire(named(name))))
		testkit.Require(t, err == nil && reply != 0, "not granted: %v %v", reply, err)
	}
	stats := testkit.Got(redis.String(s.Do("INFO", "commandstats")))(t)
	testkit.Check(t, strings.Contains(stats, "cmdstat_time:calls=1,") && strings.Contains(stats, "cmdstat_set:calls=4,"),
		"want TIME once, and SET for three counters and the marker:\n%s", stats)
}

// Ten thousand readers are as quick as one: no script goes through them. The fastest tenth of the reads tells, which
// other work on the machine delays least.
func TestManyReaders(t *testing.T) {
	s := startReal(t)
	testkit.Do(t, s, "FLUSHALL")
	tableOf(t, s).prepare("ready")
	const many = 10_000
	ask := func(number uint64) scripts.Call {
		return asReader(func(a *scripts.AcquireArgs) {
			a.Owner, a.Lease = scripts.NewOwner("locker", number).AsReader(), scripts.ToMillis(time.Hour)
		})
	}
	took := func(number uint64) time.Duration {
		call := ask(number)
		command := whole(call.Command(nil, true, connArgs(call)))
		began := time.Now()
		testkit.Do(t, s, command...)
		return time.Since(began)
	}
	var first, last []time.Duration
	for i := range uint64(many) {
		d := took(i)
		switch {
		case i < 1000:
			first = append(first, d)
		case i >= many-1000:
			last = append(last, d)
		}
	}
	slices.Sort(first)
	slices.Sort(last)
	t.Logf("the fastest tenth of 1000 reads: %v at first, %v next to %d others", first[100], last[100], many)
	testkit.Check(t, last[100] <= 4*first[100],
		"a read takes %v next to %d others, and %v at first", last[100], many, first[100])
	n, err := redis.Int(s.Do("ZCARD", "k"))
	testkit.Check(t, n == many && err == nil, "%d readers (%v)", n, err)
	call := acquire()
	reply, err := call.Parse(testkit.Do(t, s, whole(call.Command(nil, true, connArgs(call)))...))
	testkit.Check(t, err == nil && reply.Acquire.Readers == many, "a writer is refused with %+v (%v)", reply, err)
}
