package fakeredis

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

var (
	stepsFlag = flag.Int("differential.steps", 6000, "how many steps TestDifferential makes")
	seedFlag  = flag.Uint64("differential.seed", 0, "the first seed of TestDifferential; 0 for one by the clock")
)

const (
	perSequence = 60 // steps
	mostShrunk  = 400
)

// TestDifferential runs random sequences of steps (steps_test.go) on a real server and on the Go programs. The
// replies, the messages and the data must be the same, to the millisecond: the program runs at the instant at which
// the script ran. A script during which the server's millisecond changed is undone, and runs again.
func TestDifferential(t *testing.T) {
	redistest.Need(t, redistest.PlainScriptErrors) // and PEXPIRETIME
	w := startWorld(t)
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("-differential.seed=%d", first)
	for done, seed := 0, first; done < *stepsFlag; done, seed = done+perSequence, seed+1 {
		steps := sequence(rand.New(rand.NewPCG(seed, 14)))
		if at, difference := w.play(t, steps); difference != "" {
			steps = w.shrink(t, steps[:at+1])
			var trace strings.Builder
			at, difference = w.play(t, steps)
			for i, s := range steps {
				fmt.Fprintf(&trace, "%2d. %s\n", i+1, s)
			}
			t.Fatalf("-differential.seed=%d differs in step %d of\n%s%s\nthe data before it, of the Go program:\n%s", seed, at+1, &trace, difference, shownData(w.before))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		testkit.Check(t, *stepsFlag < 6000 || w.ran[name] >= 5, "%s ran %d times", name, w.ran[name])
	}
	t.Logf("replies: %v", w.ran)
}

// world is the real server, and the data that the Go programs have made of the same steps.
type world struct {
	conn, listener redis.Conn
	fake, before   *Keyspace
	heard          []string // by the fake's listener
	ran            map[string]int
}

// listened are the channels that the listener subscribes to by name.
var listened = []string{scripts.Channel(theNames[0]), scripts.Channel(theNames[2]), thePrefix + scripts.Channel(theNames[1])}

const endOfMessages = "the end"

func startWorld(t *testing.T) *world {
	fleet := testkit.Real(t, 1)
	dial := func() redis.Conn {
		return testkit.Opened(redis.Dial("tcp", fleet.Masters[0].Addr(), redis.DialReadTimeout(time.Minute)))(t)
	}
	w := &world{conn: dial(), listener: dial(), ran: map[string]int{}}
	for _, command := range forbidden {
		testkit.Got(w.conn.Do("ACL", "SETUSER", "no"+command, "on", "nopass", "~*", "&*", "+@all", "-"+strings.ToLower(command)))(t)
	}
	for _, s := range scripts.All() {
		testkit.Got(w.conn.Do("SCRIPT", "LOAD", s.Source()))(t)
	}
	subscriber := redis.PubSubConn{Conn: w.listener}
	testkit.Must(t, errors.Join(subscriber.PSubscribe("*"), subscriber.Subscribe(redis.Args{}.AddFlat(listened)...)))
	for range 1 + len(listened) {
		err, failed := subscriber.Receive().(error)
		testkit.Require(t, !failed, "%v", err)
	}
	return w
}

// play carries out the steps from no data, and returns the first that differs, and how.
func (w *world) play(t *testing.T, steps []step) (at int, difference string) {
	w.fake = &Keyspace{values: map[string]*value{}}
	w.fake.listening = func(channel string) int64 { return number(slices.Contains(listened, channel)) }
	w.fake.publish = func(channel, payload string) int {
		w.heard = append(w.heard, channel+" "+payload)
		if slices.Contains(listened, channel) {
			w.heard = append(w.heard, channel+" "+payload)
			return 2
		}
		return 1
	}
	w.restore(t)
	for i, s := range steps {
		if s.change != nil {
			s.change(w.fake)
			w.restore(t)
			continue
		}
		if difference = w.call(t, s); difference != "" {
			return i, difference
		}
	}
	return 0, ""
}

// shrink leaves out steps as long as a difference stays.
func (w *world) shrink(t *testing.T, steps []step) []step {
	tried := 0
	for size := len(steps) / 2; size > 0; size /= 2 {
		for from := 0; from+size < len(steps) && tried < mostShrunk; {
			tried++
			fewer := slices.Concat(steps[:from], steps[from+size:])
			if at, difference := w.play(t, fewer); difference != "" {
				steps = fewer[:at+1]
			} else {
				from += size
			}
		}
	}
	return steps
}

// send sends commands together, and returns their replies; an error reply is a redis.Error.
func (w *world) send(t *testing.T, commands ...[]any) []any {
	t.Helper()
	for _, c := range commands {
		testkit.Must(t, w.conn.Send(c[0].(string), c[1:]...))
	}
	testkit.Must(t, w.conn.Flush())
	replies := make([]any, len(commands))
	for i := range commands {
		reply, err := w.conn.Receive()
		var refused redis.Error
		if errors.As(err, &refused) {
			reply = refused
		} else if err != nil {
			t.Fatal(err)
		}
		replies[i] = reply
	}
	return replies
}

// dump reads all data, with absolute times.
const dump = `local now, out = redis.call('TIME'), {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, content = redis.call('TYPE', key).ok, nil
  if kind == 'string' then content = {redis.call('GET', key)}
  elseif kind == 'hash' then content = redis.call('HGETALL', key)
  elseif kind == 'list' then content = redis.call('LRANGE', key, 0, -1)
  else content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
  out[#out + 1] = {key, kind, redis.call('PEXPIRETIME', key), content}
end
return {now[1] * 1000 + math.floor(now[2] / 1000), out}`

// read is the data of a reply to dump.
func readDump(t *testing.T, reply any) *Keyspace {
	t.Helper()
	both := testkit.Got(redis.Values(reply, nil))(t)
	k := &Keyspace{values: map[string]*value{}, now: both[0].(int64)}
	for _, row := range both[1].([]any) {
		row := row.([]any)
		texts, _ := redis.Strings(row[3], nil)
		v := &value{kind: kind(row[1].([]byte)), expires: max(row[2].(int64), 0)}
		switch v.kind {
		case aString:
			v.text = texts[0]
		case aList:
			v.list = texts
		case aHash:
			v.hash = map[string]string{}
			for i := 0; i < len(texts); i += 2 {
				v.hash[texts[i]] = texts[i+1]
			}
		case aSet:
			v.scores = map[string]int64{}
			for i := 0; i < len(texts); i += 2 {
				v.scores[texts[i]] = millis(texts[i+1])
			}
		}
		k.values[string(row[0].([]byte))] = v
	}
	return k
}

// restore gives the real server the fake's data. What expires at once is lost to both.
func (w *world) restore(t *testing.T) {
	t.Helper()
	commands := [][]any{{"FLUSHALL"}}
	for key, v := range w.fake.values {
		switch v.kind {
		case aString:
			commands = append(commands, []any{"SET", key, v.text})
		case aList:
			commands = append(commands, redis.Args{"RPUSH", key}.AddFlat(v.list))
		case aHash:
			commands = append(commands, redis.Args{"HSET", key}.AddFlat(v.hash))
		case aSet:
			for member, score := range v.scores {
				commands = append(commands, []any{"ZADD", key, score, member})
			}
		}
		if v.expires != 0 {
			commands = append(commands, []any{"PEXPIREAT", key, v.expires})
		}
	}
	replies := w.send(t, append(commands, []any{"EVAL", dump, 0})...)
	for i, reply := range replies {
		if err, failed := reply.(error); failed {
			t.Fatalf("%.80v: %v", commands[i], err)
		}
	}
	w.take(readDump(t, replies[len(replies)-1]))
}

// take lets the fake's time be the server's, and drops what has expired there.
func (w *world) take(real *Keyspace) {
	w.fake.now = real.now
	for key, v := range w.fake.values {
		if v.expires != 0 && v.expires <= real.now && real.values[key] == nil {
			delete(w.fake.values, key)
		}
	}
}

// call runs a step's script in both worlds.
func (w *world) call(t *testing.T, s step) (difference string) {
	t.Helper()
	commands := [][]any{{"TIME"}, s.command, {"TIME"}, {"PUBLISH", endOfMessages, ""}, {"EVAL", dump, 0}}
	around := func(before, after []any) { commands = slices.Insert(slices.Insert(commands, 2, after), 1, before) }
	switch {
	case s.refusals.Full:
		around([]any{"CONFIG", "SET", "maxmemory", 1}, []any{"CONFIG", "SET", "maxmemory", 0})
	case s.refusals.ReadOnly:
		around([]any{"CONFIG", "SET", "min-replicas-to-write", 1}, []any{"CONFIG", "SET", "min-replicas-to-write", 0})
	case s.refusals.Forbidden != "":
		around([]any{"AUTH", "no" + s.refusals.Forbidden, "x"}, []any{"AUTH", "default", "x"})
	}
	isPlain := s.refusals == (Refusals{})
	var replies []any
	for range 10000 {
		replies = w.send(t, commands...)
		messages := w.messages(t)
		last := len(replies) - 3
		from, to := instantOf(t, replies[0]), instantOf(t, replies[last])
		real := readDump(t, replies[last+2])
		if from != to {
			w.restore(t)
			continue
		}
		reply := replies[1]
		if !isPlain {
			reply = replies[2]
		}
		w.before = w.fake.Clone()
		w.before.now = from
		w.fake.now, w.heard = from, nil
		w.fake.Refuse(s.refusals)
		keys, args := s.arguments()
		fakeReply, err := w.fake.run(programs[s.name], keys, args)
		w.fake.Refuse(Refusals{})
		if err != nil {
			fakeReply = err
		}
		w.ran[s.name]++
		w.ran[kindOf(reply)]++
		w.take(real)
		if difference = w.withoutPrefix(s, canonical(fakeReply)); difference != "" {
			return difference
		}
		if got, want := canonical(fakeReply), canonical(reply); got != want {
			return fmt.Sprintf("the script replies     %s\nthe Go program replies %s", want, got)
		}
		if !slices.Equal(w.heard, messages) {
			return fmt.Sprintf("the script publishes     %q\nthe Go program publishes %q", messages, w.heard)
		}
		if got, want := shownData(w.fake), shownData(real); got != want {
			return fmt.Sprintf("the script leaves\n%sthe Go program leaves\n%s", want, got)
		}
		return ""
	}
	t.Fatal("the server's millisecond changed during each of 10,000 runs of a script")
	return ""
}

// withoutPrefix runs a step that had a prefix without it: nothing else is different.
func (w *world) withoutPrefix(s step, reply string) (difference string) {
	if s.prefix == "" {
		return ""
	}
	plain := w.before.Clone()
	plain.rename(withoutPrefix)
	plain.listening = func(channel string) int64 { return w.fake.listening(s.prefix + channel) }
	plain.publish = func(channel, _ string) int { return 1 + int(plain.listening(channel)) }
	plain.Refuse(s.refusals)
	keys, args := s.arguments()
	for _, texts := range [][]string{keys, args} {
		for i := range texts {
			texts[i] = withoutPrefix(texts[i])
		}
	}
	plainReply, err := plain.run(programs[s.name], keys, args)
	if err != nil {
		plainReply = err
	}
	is := w.fake.Clone()
	plain.now = is.now
	is.rename(withoutPrefix)
	if got, want := canonical(plainReply), withoutPrefix(reply); got != want {
		return fmt.Sprintf("the Go program replies %s without a prefix, and %s with one", got, want)
	}
	if got, want := shownData(plain), shownData(is); got != want {
		return fmt.Sprintf("the Go program leaves\n%swithout a prefix, and with one\n%s", got, want)
	}
	return ""
}

// messages returns what was published before the end.
func (w *world) messages(t *testing.T) (heard []string) {
	t.Helper()
	subscriber := redis.PubSubConn{Conn: w.listener}
	for {
		switch m := subscriber.Receive().(type) {
		case error:
			t.Fatal(m)
		case redis.Message:
			if m.Channel == endOfMessages {
				return heard
			}
			heard = append(heard, m.Channel+" "+string(m.Data))
		}
	}
}

func instantOf(t *testing.T, reply any) int64 {
	t.Helper()
	parts := testkit.Got(redis.Int64s(reply, nil))(t)
	return parts[0]*1000 + parts[1]/1000
}

// namesCommand is how Redis 8 and Valkey 8 say that a user may not run a command.
var namesCommand = regexp.MustCompile(`^ERR ACL failure in script: User \S+ has no permissions to run the '\S+' command`)

// canonical is a reply as text. An error of a call within a script names the script and its line.
func canonical(reply any) string {
	switch r := reply.(type) {
	case []byte, string:
		return fmt.Sprintf("%.300q", r)
	case error:
		text, _, _ := strings.Cut(namesCommand.ReplaceAllString(r.Error(), errForbidden.Error()), " script: ")
		return "error " + text
	case []any:
		parts := make([]string, len(r))
		for i := range r {
			parts[i] = canonical(r[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(reply)
}

// kindOf is what a reply is counted as.
func kindOf(reply any) string {
	switch r := reply.(type) {
	case int64:
		if r > 1 {
			return "a number"
		}
	case error:
		word, _, _ := strings.Cut(r.Error(), " ")
		return "-" + word
	case []any:
		if word, ok := append(r, nil)[0].([]byte); ok && strings.Trim(string(word), "abcdefghijklmnopqrstuvwxyz") == "" {
			return string(word)
		}
	}
	return "others"
}

// shownData is data as text, without what expires within two milliseconds.
func shownData(k *Keyspace) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(k.values)) {
		v := k.values[key]
		if v.expires != 0 && v.expires <= k.now+2 {
			continue
		}
		fmt.Fprintf(&b, "  %.200s: %s", key, v.kind)
		if v.expires != 0 {
			fmt.Fprintf(&b, " for %d ms", v.expires-k.now)
		}
		if v.kind == aString {
			fmt.Fprintf(&b, " %.300q", v.text)
		}
		if v.kind == aList {
			fmt.Fprintf(&b, " %q", v.list)
		}
		for _, field := range slices.Sorted(maps.Keys(v.hash)) {
			fmt.Fprintf(&b, " %.60q=%.60q", field, v.hash[field])
		}
		for _, member := range slices.Sorted(maps.Keys(v.scores)) {
			fmt.Fprintf(&b, " %.60q till %+d", member, v.scores[member]-k.now)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
