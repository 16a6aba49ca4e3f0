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
	"github.com/quorumlock/quorumlock/scripts/operators"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startReal starts a redis-server, or skips the test.
func startReal(t *testing.T) listener {
	t.Helper()
	return newListener(t, testkit.Real(t, 1).Masters[0])
}

// listener is a master that implements server for the vectors. One connection serves all commands: a machine that tracks
// connections has no room for one each.
type listener struct {
	*redistest.Master
	conn redis.Conn
}

func newListener(t *testing.T, m *redistest.Master) listener {
	t.Helper()
	const bound = 20 * time.Second // as Master.Do has
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(bound), redis.DialWriteTimeout(bound))
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
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
func listen(conn redis.Conn, s interface {
	Do(args ...any) (any, error)
}, during func()) (messages []message, err error) {
	const end = "the test's end"
	subscriber := redis.PubSubConn{Conn: conn}
	defer subscriber.Close()
	if err := subscriber.PSubscribe("*"); err != nil {
		return nil, err
	}
	// The scripts count the subscribers of a channel, which are waiters, and no subscribers of
	// patterns.
	if err := subscriber.Subscribe(scripts.Channel("awaited"), scripts.Channel("quorumlock:slot:12:crowded"), scripts.Channel("await{ed")); err != nil {
		return nil, err
	}
	for range 4 {
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

// barring returns connArgs with a tombstone.
func barring(call scripts.Call) scripts.ConnArgs {
	args := connArgs(call)
	args.Tombstone = int64(30000)
	return args
}

// Without memory a server grants nothing, and renews and releases what is held.
func TestOutOfMemory(t *testing.T) {
	s := startReal(t)
	run := func(call scripts.Call) (any, error) { return s.Do(whole(call.Command(nil, true, barring(call)))...) }
	tableOf(t, s).prepare("ready; lock k me 3 1m; counter k 7; lock l me 10s; counter l 7; lock d me 1s")
	testkit.Do(t, s, "CONFIG", "SET", "maxmemory", "1")

	start := tableOf(t, s).snapshot()
	for what, call := range map[string]scripts.Call{"a fresh grant": acquire(named("m")), "a repair": acquire(named("m"), carrying(9)),
		"two names, one mine": acquire(named("k", "m")), "a fresh reader": asReader(named("m"))} {
		reply, err := run(call)
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "OOM"), "%s: %v %v, want an OOM error", what, reply, err)
	}
	calls := []scripts.Call{acquire(named("m")), acquire(named("n"), by(rival))}
	reply, err := sendRun(s, calls)
	testkit.Must(t, err)
	shared, err := calls[0].ParseRun(reply, len(calls))
	testkit.Must(t, err)
	for i, call := range calls {
		got, isAlone, err := shared.Of(i, call)
		testkit.Check(t, err == nil && isAlone, "one of two grants: %+v (%v), want that it is asked for alone", got, err)
	}
	wantUnchanged(t, s, start)

	batch := []scripts.Renewal{renewal(9, "k"), renewal(7, "l"), renewal(7, "m")} // only the first needs to write its counter
	call := scripts.Renew(ours, batch)
	reply, err = run(call)
	testkit.Must(t, err)
	parsed, err := call.Parse(reply)
	renewed := parsed.Renew
	testkit.Check(t, err == nil && renewed[0] == scripts.Kept && renewed[1] == scripts.Kept && renewed[2] == scripts.Gone,
		"renewed %c (%v), want R, R, G", renewed, err)
	wantState(t, s, "lock k me 3 1m", "counter k 7", "lock l me 10s", "counter l 7")

	// Otherwise a lock that was downgraded would be lost, which as a writer's is renewed.
	token, err := redis.Int(run(asReader(named("d"), carrying(7))))
	testkit.Check(t, token == 7 && err == nil, "a downgrade: %d (%v), want 7", token, err)
	wantState(t, s, "readers d me/10s 10s")

	// So is its renewal, also where its key has no time to live.
	reader := scripts.Renewal{Names: testkit.Names("d"), Owner: scripts.OwnerOf(me).AsReader(), Token: 7}
	for i, left := range []string{"readers d me/20s 20s", "readers d me/30s"} {
		reader.Lease = scripts.ToMillis(time.Duration(2+i) * lease)
		call := scripts.Renew(ours, []scripts.Renewal{reader})
		reply, err = run(call)
		parsed, parseErr := call.Parse(reply)
		testkit.Check(t, err == nil && parseErr == nil && parsed.Renew[0] == scripts.Kept,
			"%s: renewed %c (%v, %v), want R", left, parsed.Renew, err, parseErr)
		wantState(t, s, left)
		testkit.Do(t, s, "PERSIST", "d")
	}

	found, err := redis.Int(run(scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 2)))
	testkit.Check(t, found == 1 && err == nil, "lowering the depth: found %d (%v), want 1", found, err)
	found, err = redis.Int(run(scripts.Release(testkit.Names("g"), scripts.OwnerOf(me), 0)))
	testkit.Check(t, found == 0 && err == nil, "release of nothing, with a tombstone: found %d (%v), want 0", found, err)
	messages, listenErr := s.Listen(func() {
		call := scripts.Release(testkit.Names("k", "l"), scripts.OwnerOf(me), 0)
		reply, err := run(call)
		if err != nil {
			t.Errorf("release: %v", err)
			return
		}
		got, err := call.Parse(reply)
		want := scripts.ReleaseReply{Found: 2, Heard: 1}
		testkit.Check(t, got.Release == want && err == nil, "release: %+v (%v), want %+v", got, err, want)
	})
	testkit.Check(t, listenErr == nil && len(messages) == 2, "published %q (%v), want two messages", messages, listenErr)
	wantState(t, s, "DEL k", "DEL l")

	testkit.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	reply, err = run(acquire(named("m")))
	testkit.Check(t, err == nil, "with memory again: %v %v", reply, err)
}

// userWithout returns a connection of a user that may do all but what the rule forbids.
func userWithout(t *testing.T, s listener, rules ...string) redis.Conn {
	t.Helper()
	testkit.Do(t, s, redistest.SetUser("app", append([]string{"reset", "on", ">word", "~*", "&*", "+@all"}, rules...)...)...)
	c, err := redis.Dial("tcp", s.Addr(), redis.DialUsername("app"), redis.DialPassword("word"))
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = c.Do("EXISTS", "k") // what it may
	testkit.Must(t, err)
	return c
}

// A user that may not count subscribers is refused like others. A user that may not publish
// releases everything, and is told. A user that may not delete gets an error.
func TestUsersWithMissingPermissions(t *testing.T) {
	s := startReal(t)
	as := func(rule string, call scripts.Call) (any, error) {
		t.Helper()
		name, args := call.Command(nil, true, barring(call))
		return userWithout(t, s, rule).Do(name, args...)
	}
	tableOf(t, s).prepare("ready; lock k rival 10s; lock l me 10s; lock m me 10s")

	answer := func(rule string, call scripts.Call) scripts.Reply {
		t.Helper()
		reply, err := as(rule, call)
		testkit.Must(t, err)
		got, err := call.Parse(reply)
		testkit.Must(t, err)
		return got
	}
	isHeld := func(what string, got scripts.AcquireReply) {
		t.Helper()
		testkit.Check(t, got.Outcome == scripts.HeldByAnother && got.Waiting == 0, "%s: %+v, want held", what, got)
	}
	isHeld("without PUBSUB", answer("-pubsub", acquire(named("k"))).Acquire)
	calls := []scripts.Call{acquire(named("k")), acquire(named("n"))}
	name, args := scripts.RunCommand(nil, calls, true, connArgs(calls[0]))
	reply, err := userWithout(t, s, "-pubsub").Do(name, args...)
	testkit.Must(t, err)
	run, err := calls[0].ParseRun(reply, len(calls))
	testkit.Must(t, err)
	got, _, err := run.Of(0, calls[0])
	testkit.Must(t, err)
	isHeld("without PUBSUB, in a run", got.Acquire)
	testkit.Equal(t, answer("-pubsub", scripts.Slots("crowded", 1)).Slots.Waiting, 0, "slots without PUBSUB")
	tableOf(t, s).prepare("readers o rival/10s")
	beside := answer("-pubsub", acquire(named("o"))).Acquire
	testkit.Check(t, beside.Readers == 1 && beside.Waiting == 0, "next to readers, without PUBSUB: %+v, want held", beside)
	tableOf(t, s).prepare("lock p rival 10s")
	isHeld("a reader without PUBSUB", answer("-pubsub", asReader(named("p"))).Acquire)
	survey := operators.Survey("0")
	names := answer("-hgetall", survey).Other.(*operators.SurveyReply).Names
	testkit.Check(t, slices.Equal(names, []string{"o"}), "a survey without HGETALL: %q, want the readers alone", names)
	reply, err = as("-pubsub", survey)
	testkit.Check(t, err == nil && reply != nil, "a survey without PUBSUB: %v (%v)", reply, err)
	both := scripts.Release(testkit.Names("l", "m"), scripts.OwnerOf(me), 0)
	reply, err = as("-hdel", both)
	testkit.Check(t, errors.As(err, new(redis.Error)), "without HDEL: %v (%v), want an error", reply, err)
	testkit.Equal(t, answer("-publish", both).Release, scripts.ReleaseReply{Found: 2, Heard: -1}, "without PUBLISH, where nobody is told")
	wantState(t, s, "DEL l", "DEL m", "SET ~released:me 1 30s")

	testkit.Do(t, s, "HSET", "k", rival, "1")
	reply, err = as("-publish", scripts.Force(scripts.NewName("k"), nil, 0, maxLease))
	testkit.Check(t, err == nil && reply == int64(1), "force without PUBLISH: %v (%v)", reply, err)
	tableOf(t, s).prepare("lock k me")
	reply, err = as("-publish", asReader())
	testkit.Check(t, err == nil && reply != nil, "a downgrade without PUBLISH: %v (%v)", reply, err)
	wantState(t, s, "DEL l")
}

// A renewal that is refused says by which marker.
func TestARefusedRenewalHasTheMarker(t *testing.T) {
	s := startReal(t)
	tableOf(t, s).prepare("marker members=abd; lock k me")
	there, err := redis.String(s.Do("GET", marker))
	testkit.Must(t, err)
	call := scripts.Renew(ours, []scripts.Renewal{renewal(5, "k")})
	reply, err := send(s, call)
	testkit.Must(t, err)
	got, err := call.Parse(reply)
	testkit.Check(t, err == nil && got.NotAccepted != nil && got.NotAccepted.Marker == there, "%+v (%v), want the marker %q",
		got.NotAccepted, err, there)
}

// A release of two names is not told if one message is not.
func TestAUserWithOneChannel(t *testing.T) {
	redistest.Need(t, redistest.ACLChannels)
	s, both := startReal(t), scripts.Release(testkit.Names("k", "l"), scripts.OwnerOf(me), 0)
	for _, may := range []string{"k", "l"} {
		c := userWithout(t, s, "resetchannels", "&"+scripts.Channel(may))
		tableOf(t, s).prepare("lock k me; lock l me")
		name, args := both.Command(nil, true, barring(both))
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
		if reply, err := redis.Int64(send(s, acquire(named(name)))); err != nil || reply == 0 {
			t.Fatalf("not granted: %v %v", reply, err)
		}
	}
	stats, err := redis.String(s.Do("INFO", "commandstats"))
	testkit.Must(t, err)
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
