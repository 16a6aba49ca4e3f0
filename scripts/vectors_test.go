package scripts_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/scripts"
)

// server is what the vectors run on: redis-server, miniredis, or a fake that is to behave as these
// do.
type server interface {
	// Do runs one command. Replies are as redigo's: []byte, int64, nil, []any; error replies are a
	// redis.Error in the error's chain.
	Do(args ...any) (any, error)
	// Listen returns what is published on any channel while during runs.
	Listen(during func()) ([]message, error)
}

type message struct{ channel, payload string }

// vector is one run of a script: a state, a call, and what must come of it.
type vector struct {
	name   string
	before [][]any // commands that make the state; an argument of type serverTime is put in milliseconds
	call   scripts.Call
	bury   time.Duration // ConnArgs.Tombstone, 0 for NoTombstone
	parse  func(any) (any, error)

	want      any       // the typed reply; of a duration up to a slack may have passed
	err       string    // in place of want: what the error reply contains
	after     []check   // what must hold then
	untouched bool      // nothing was written, no time to live changed
	published []message // all that was published
	twice     bool      // a second run must reply the same, and change and publish nothing more
}

// vectors are all of them. The commands before a vector find an empty server.
func vectors() []vector {
	return slices.Concat(acquireVectors(), quarantineVectors(), renewVectors(), releaseVectors(), raiseVectors(),
		inspectVectors(), forceVectors(), admitVectors())
}

// serverTime is an instant as a distance from the server's now.
type serverTime time.Duration

// slack is how long a vector may take on a busy machine.
const slack = 2 * time.Second

const runID = "the-run-id" // which the connection of a vector's call expects

func runVectors(t *testing.T, s server) {
	seen := map[string]bool{}
	for _, v := range vectors() {
		if name := v.call.Op() + "/" + v.name; seen[name] {
			t.Fatalf("two vectors are called %s", name)
		} else {
			seen[name] = true
		}
		t.Run(v.call.Op()+"/"+v.name, func(t *testing.T) { v.run(t, s) })
	}
}

func (v vector) run(t *testing.T, s server) {
	mustDo(t, s, "FLUSHALL")
	for _, command := range v.before {
		mustDo(t, s, resolve(t, s, command)...)
	}
	start := snapshot(t, s)
	v.runOnce(t, s, v.published)
	if v.untouched {
		sameSnapshot(t, start, snapshot(t, s), 0)
	}
	for _, holds := range v.after {
		holds(t, s)
	}
	if v.twice && !t.Failed() {
		first := snapshot(t, s)
		v.runOnce(t, s, nil)
		sameSnapshot(t, first, snapshot(t, s), slack) // a time to live may be whole again
	}
}

func (v vector) runOnce(t *testing.T, s server, published []message) {
	t.Helper()
	by := scripts.ConnArgs{Run: runID, Tombstone: scripts.NoTombstone}
	if v.bury != 0 {
		by.Tombstone = v.bury.Milliseconds()
	}
	name, args := v.call.Command(nil, true, by)
	var reply any
	var err error
	got, listenErr := s.Listen(func() { reply, err = s.Do(append([]any{name}, args...)...) })
	if listenErr != nil {
		t.Fatal(listenErr)
	}
	if !slices.Equal(got, published) {
		t.Errorf("published %q, want %q", got, published)
	}
	if v.err != "" {
		var refused redis.Error
		if !errors.As(err, &refused) || !strings.Contains(string(refused), v.err) {
			t.Errorf("replied %v (%v), want an error with %q", reply, err, v.err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	typed, err := v.parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	if !sameReply(typed, v.want) {
		t.Errorf("replied %+v, want %+v", typed, v.want)
	}
}

// sameReply compares durations up to the slack, and everything else exactly.
func sameReply(got, want any) bool {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Type() != w.Type() || g.Kind() != reflect.Struct {
		return reflect.DeepEqual(got, want)
	}
	for i := range g.NumField() {
		if d, ok := w.Field(i).Interface().(time.Duration); ok {
			if !within(time.Duration(g.Field(i).Int()), d) {
				return false
			}
		} else if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			return false
		}
	}
	return true
}

func within(got, want time.Duration) bool {
	if want <= 0 {
		return got == want
	}
	return got <= want && got > want-slack
}

func resolve(t *testing.T, s server, command []any) []any {
	t.Helper()
	command = slices.Clone(command)
	for i, arg := range command {
		if at, ok := arg.(serverTime); ok {
			command[i] = now(t, s) + time.Duration(at).Milliseconds()
		}
	}
	return command
}

// now is the server's clock in milliseconds.
func now(t *testing.T, s server) int64 {
	t.Helper()
	parts, err := redis.Int64s(s.Do("TIME"))
	if err != nil || len(parts) != 2 {
		t.Fatalf("TIME: %v %v", parts, err)
	}
	return parts[0]*1000 + parts[1]/1000
}

// entry is a key as a test sees it.
type entry struct {
	content string
	ttl     time.Duration
}

func snapshot(t *testing.T, s server) map[string]entry {
	t.Helper()
	keys, err := redis.Strings(s.Do("KEYS", "*"))
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]entry{}
	for _, key := range keys {
		kind, err := redis.String(s.Do("TYPE", key))
		if err != nil {
			t.Fatal(err)
		}
		var content any
		switch kind {
		case "string":
			content, err = redis.String(s.Do("GET", key))
		case "hash":
			content, err = redis.StringMap(s.Do("HGETALL", key))
		case "list":
			content, err = redis.Strings(s.Do("LRANGE", key, 0, -1))
		default:
			t.Fatalf("%q is a %s", key, kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		entries[key] = entry{fmt.Sprintf("%s %q", kind, content), ttlOf(t, s, key)}
	}
	return entries
}

// sameSnapshot lets times to live run, and be raised by so much.
func sameSnapshot(t *testing.T, before, after map[string]entry, raised time.Duration) {
	t.Helper()
	for key, was := range before {
		is, ok := after[key]
		if !ok || is.content != was.content || !within(is.ttl, was.ttl) && !within(is.ttl-raised, was.ttl) {
			t.Errorf("%q was %+v and is %+v", key, was, is)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			t.Errorf("%q was written: %+v", key, after[key])
		}
	}
}

// check is something that must hold of a server's state.
type check func(*testing.T, server)

// hash holds when the hash has just these fields and values.
func hash(key string, fields ...string) check {
	want := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		want[fields[i]] = fields[i+1]
	}
	return func(t *testing.T, s server) {
		t.Helper()
		got, err := redis.StringMap(s.Do("HGETALL", key))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the hash %q is %q (%v), want %q", key, got, err, want)
		}
	}
}

func text(key, want string) check {
	return func(t *testing.T, s server) {
		t.Helper()
		if got, err := redis.String(s.Do("GET", key)); got != want || err != nil {
			t.Errorf("%q is %q (%v), want %q", key, got, err, want)
		}
	}
}

// counter holds when the name's token counter stands there, and lives for its day.
func counter(name, want string) check {
	key := "quorumlock:token:" + name
	return func(t *testing.T, s server) {
		t.Helper()
		text(key, want)(t, s)
		ttl(key, 24*time.Hour)(t, s)
	}
}

// ttl holds when the key has so long to live, but for the slack.
func ttl(key string, want time.Duration) check {
	return func(t *testing.T, s server) {
		t.Helper()
		if got := ttlOf(t, s, key); !within(got, want) {
			t.Errorf("%q has %v to live, want %v", key, got, want)
		}
	}
}

// absent holds when none of the keys is there.
func absent(keys ...string) check {
	return func(t *testing.T, s server) {
		t.Helper()
		for _, key := range keys {
			if n, err := redis.Int(s.Do("EXISTS", key)); n != 0 || err != nil {
				t.Errorf("%q exists (%v)", key, err)
			}
		}
	}
}

// ttlOf returns −1 for a key without a time to live, −2 for no key.
func ttlOf(t *testing.T, s server, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do("PTTL", key))
	if err != nil {
		t.Fatal(err)
	}
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

func mustDo(t *testing.T, s server, args ...any) any {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return reply
}

// parsed makes a parser of a script's replies the one of a vector.
func parsed[T any](parse func(any) (T, error)) func(any) (any, error) {
	return func(v any) (any, error) { return parse(v) }
}
