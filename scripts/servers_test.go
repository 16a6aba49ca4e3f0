package scripts_test

import (
	"errors"
	"fmt"
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

func TestVectorsOnRedis(t *testing.T) { runVectors(t, startReal(t)) }

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
	if err := subscriber.Subscribe(scripts.Channel("awaited"), scripts.Channel(crowdedSlot), scripts.Channel("await{ed")); err != nil {
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

// marked holds when the marker names the test's process and has these members, and admits the node
// after that time, to within the slack.
func marked(in time.Duration, members *scripts.List) check {
	return func(t *testing.T, s server) {
		t.Helper()
		m := readMarker(t, s)
		if m.Process != process || m.Claimed || m.Generation != 3 || !m.Members.Equal(members) || m.Next.Len() != 0 || m.Change != 0 {
			t.Fatalf("the marker is %q", m)
		}
		got := m.Admitted - time.Duration(now(t, s))*time.Millisecond
		testkit.Check(t, got <= in && got >= in-slack, "admitted in %v, want %v", got, in)
	}
}

// waits holds when the next change of members must wait for that time, to within the slack.
func waits(want time.Duration) check {
	return func(t *testing.T, s server) {
		t.Helper()
		got := readMarker(t, s).Change - time.Duration(now(t, s))*time.Millisecond
		testkit.Check(t, got <= want && got >= want-slack, "the next change in %v, want %v", got, want)
	}
}

func readMarker(t *testing.T, s server) scripts.Marker {
	t.Helper()
	text, err := redis.String(s.Do("GET", marker))
	testkit.Must(t, err)
	m, err := scripts.ParseMarker(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return m
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
	prepare(t, s, state(ready, holds("k", me, "3"), expire("k", time.Minute), counted("k", "7"),
		holds("l", me, "1"), expire("l", lease), counted("l", "7"), holds("d", me, "1"), expire("d", time.Second)))
	testkit.Do(t, s, "CONFIG", "SET", "maxmemory", "1")

	start := snapshot(t, s)
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
	sameSnapshot(t, start, snapshot(t, s), 0)

	batch := []scripts.Renewal{renewal(9, "k"), renewal(7, "l"), renewal(7, "m")} // only the first needs to write its counter
	call := scripts.Renew(ours, batch)
	reply, err = run(call)
	testkit.Must(t, err)
	parsed, err := call.Parse(reply)
	renewed := parsed.Renew
	testkit.Check(t, err == nil && renewed[0] == scripts.Kept && renewed[1] == scripts.Kept && renewed[2] == scripts.Gone,
		"renewed %c (%v), want R, R, G", renewed, err)
	for _, holds := range []check{ttl("k", time.Minute), ttl("l", lease), counter("k", "7"), counter("l", "7")} {
		holds(t, s)
	}

	// Otherwise a lock that was downgraded would be lost, which as a writer's is renewed.
	token, err := redis.Int(run(asReader(named("d"), carrying(7))))
	testkit.Check(t, token == 7 && err == nil, "a downgrade: %d (%v), want 7", token, err)
	ttl("d", lease)(t, s)
	members("d", reader+me)(t, s)

	// So is its renewal, also where its key has no time to live.
	reader := scripts.Renewal{Names: testkit.Names("d"), Owner: scripts.OwnerOf(me).AsReader(), Token: 7}
	for i, left := range []time.Duration{2 * lease, -1} {
		reader.Lease = scripts.ToMillis(time.Duration(2+i) * lease)
		call := scripts.Renew(ours, []scripts.Renewal{reader})
		reply, err = run(call)
		parsed, parseErr := call.Parse(reply)
		testkit.Check(t, err == nil && parseErr == nil && parsed.Renew[0] == scripts.Kept,
			"a reader, to %v: renewed %c (%v, %v), want R", left, parsed.Renew, err, parseErr)
		ttl("d", left)(t, s)
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
	absent("k", "l")(t, s)

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
	prepare(t, s, state(ready, holds("k", rival, "1"), expire("k", lease), holds("l", me, "1"), expire("l", lease),
		holds("m", me, "1"), expire("m", lease)))

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
	prepare(t, s, state([]any{"ZADD", "o", serverTime(lease), reader + rival}))
	beside := answer("-pubsub", acquire(named("o"))).Acquire
	testkit.Check(t, beside.Readers == 1 && beside.Waiting == 0, "next to readers, without PUBSUB: %+v, want held", beside)
	prepare(t, s, state(holds("p", rival, "1"), expire("p", lease)))
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
	absent("l", "m")(t, s)
	text(tomb, "1")(t, s)

	testkit.Do(t, s, "HSET", "k", rival, "1")
	reply, err = as("-publish", scripts.Force(scripts.NewName("k"), nil, 0, maxLease))
	testkit.Check(t, err == nil && reply == int64(1), "force without PUBLISH: %v (%v)", reply, err)
	prepare(t, s, state(holds("k", me, "1")))
	reply, err = as("-publish", asReader())
	testkit.Check(t, err == nil && reply != nil, "a downgrade without PUBLISH: %v (%v)", reply, err)
	absent("l")(t, s)
}

// A renewal that is refused says by which marker.
func TestARefusedRenewalHasTheMarker(t *testing.T) {
	s := startReal(t)
	prepare(t, s, state(markerOf(admitted(0, true, theirMembers)), holds("k", me, "1")))
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
		prepare(t, s, state(holds("k", me, "1"), holds("l", me, "1")))
		name, args := both.Command(nil, true, barring(both))
		reply, err := c.Do(name, args...)
		got, parsed := both.Parse(reply)
		testkit.Check(t, err == nil && parsed == nil && got.Release == scripts.ReleaseReply{Found: 2, Heard: -1},
			"%q may be told: %v (%v), want both found, and that nobody was told", may, reply, err)
	}
}

// What a user may not do the server refuses, and nothing is done by halves: no key stays without a time to live, no
// reader is granted who is not written, and one whom nobody may look for has not gone. Where the forbidden command is
// not needed, it makes no difference. A key of another type is told as to others.
func TestWhatAUserMayNotDo(t *testing.T) {
	const refused, wrongType = "refused", "WRONGTYPE"
	lowered := scripts.Release(testkit.Names("k"), scripts.OwnerOf(me).AsReader(), 1)
	renews := func(owner scripts.Owner) scripts.Call {
		return scripts.Renew(ours, []scripts.Renewal{{Names: testkit.Names("k"), Owner: owner, Token: 7, Lease: scripts.ToMillis(lease)}})
	}
	iAm, reader := scripts.OwnerOf(me), scripts.OwnerOf(me).AsReader()
	iRead, heReads := state(reads(me, lease), expire("k", lease)), state(reads(rival, lease), expire("k", lease))
	s := startReal(t)
	for _, v := range []struct {
		rule, what string
		before     [][]any
		call       scripts.Call
		want       string // refused, wrongType or the reply
		after      check  // nil if nothing was written
	}{
		{"-zscore", "the reader", iRead, lowered, refused, nil},
		{"-zscore", "another reader", heReads, lowered, refused, nil},
		{"-zscore", "a downgrade that was missed", state(holds("k", me, "2"), expire("k", lease)), lowered, "1", nil},
		{"-zscore", "another writer", state(holds("k", rival, "1"), expire("k", lease)), lowered, "0", nil},
		{"-zscore", "nobody", nil, lowered, "0", nil},
		{"-@sortedset", "readers", state(ready, reads(rival, lease)), acquire(), refused, nil},
		{"-@sortedset", "a string", state(ready, []any{"SET", "k", "text"}), acquire(), wrongType, nil},
		{"-@sortedset", "a list", state(ready, []any{"RPUSH", "k", "x"}), acquire(), wrongType, nil},
		{"-zadd", "nobody", state(ready), asReader(), refused, absent("k")},
		{"-zadd", "the holder", state(ready, holds("k", me, "2")), asReader(), refused, hash("k", me, "2")},
		{"-zadd", "the holder, with a time to live", state(ready, holds("k", me, "2"), expire("k", lease)), asReader(), refused, ttl("k", lease)},
		{"-pexpire", "a writer", state(ready), acquire(named("k", "l")), refused, absent("k", "l")},
		{"-pexpire", "a reader", state(ready), asReader(), refused, absent("k")},
		{"-pexpire", "one next to another", slices.Concat(state(ready), heReads), asReader(), refused, readers(map[string]time.Duration{rival: lease})},
		{"-pexpire", "one that reads again", slices.Concat(state(ready), iRead), asReader(), refused, readers(map[string]time.Duration{me: lease})},
		{"-hexists", "a holder that renews", state(ready, holds("k", me, "1")), renews(iAm), refused, nil},
		{"-hexists", "a holder that renews what is gone", state(ready), renews(iAm), refused, nil},
		{"-hexists", "a reader that renews, and a downgrade that was missed", state(ready, holds("k", me, "1")), renews(reader), refused, nil},
		{"-zscore", "a reader that renews", slices.Concat(state(ready), iRead), renews(reader), refused, nil},
		{"-zadd", "a reader that renews", state(ready, reads(me, lease/2), expire("k", lease)), renews(reader), "F", only(me, lease/2)},
		{"-hexists", "a token of a holder, and readers are there", heReads, scripts.Raise(testkit.Names("k"), iAm, 9), refused, nil},
		{"-hexists", "a downgrade that was missed", state(holds("k", me, "2"), expire("k", lease)), lowered, refused, nil},
		{"-get", "a list at the counter", state(ready, []any{"RPUSH", counterOf("k"), "x"}), acquire(), refused, nil},
		{"-get", "a list at a reader's counter", state(ready, []any{"RPUSH", counterOf("k"), "x"}), asReader(), refused, nil},
	} {
		t.Run(v.rule+", "+v.what, func(t *testing.T) {
			testkit.Do(t, s, "FLUSHALL")
			c := userWithout(t, s, v.rule)
			if v.rule == "-pexpire" {
				testkit.Do(t, s, redistest.SetUser("app", "-pexpireat")...)
			}
			prepare(t, s, v.before)
			start := snapshot(t, s)
			name, args := v.call.Command(nil, true, connArgs(v.call))
			reply, err := c.Do(name, args...)
			got := fmt.Sprint(reply)
			if text, ok := reply.([]byte); ok {
				got = string(text)
			}
			switch {
			case errors.As(err, new(redis.Error)) && strings.Contains(err.Error(), wrongType):
				got = wrongType
			case errors.As(err, new(redis.Error)) && !strings.Contains(err.Error(), "QUORUMLOCK") && !strings.Contains(err.Error(), "arguments"):
				got = refused
			}
			testkit.Check(t, got == v.want && (v.rule != "-pexpire" || strings.Contains(strings.ToUpper(err.Error()), "PEXPIRE")),
				"%v (%v), want %s", reply, err, v.want)
			if v.after == nil {
				sameSnapshot(t, start, snapshot(t, s), 0)
			} else {
				v.after(t, s)
			}
		})
	}
}

// After the first grant that follows a quarantine, grants do not read the clock.
func TestGrantsDoNotReadTheClock(t *testing.T) {
	s := startReal(t)
	prepare(t, s, state(markerOf(admitted(-time.Hour, false))))
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
