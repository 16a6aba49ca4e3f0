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

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// server runs the vectors: redis-server, or the fake that must behave like it.
type server interface {
	// Do runs one command. Its replies have the types of redigo: []byte, int64, nil, []any; error
	// replies are a redis.Error in the error's chain.
	Do(args ...any) (any, error)
	// Listen returns what is published on any channel while during runs.
	Listen(during func()) ([]message, error)
}

type message struct{ channel, payload string }

// vector is one run of a script: a state, a call, and the expected outcome.
type vector struct {
	name      string
	before    [][]any // commands that make the state; an argument of type serverTime is sent in milliseconds, and a function's result at the server's now
	call      scripts.Call
	shared    []scripts.Call         // calls that share a run with call, the first of them
	last      time.Duration          // of mark: when it is late, since 1970; 0 for far ahead
	earlier   bool                   // of renew: the marker is an earlier process's
	bare      bool                   // of renew: the state has no marker but the one from before
	tombstone time.Duration          // ConnArgs.Tombstone, 0 for NoTombstone
	parse     func(any) (any, error) // nil for typed

	want      any       // the typed reply; a duration may be lower by up to the slack
	err       string    // in place of want: part of the error reply
	after     []check   // what must hold afterwards
	untouched bool      // nothing is written, no time to live changes
	published []message // all messages
	twice     bool      // a second run must reply the same, and change and publish nothing
}

// vectors returns all vectors. The commands before a vector find an empty server.
func vectors() []vector {
	return slices.Concat(acquireVectors(), takeOverVectors(), quarantineVectors(), listVectors(), renewVectors(), releaseVectors(), raiseVectors(),
		inspectVectors(), forceVectors(), lookVectors(), markVectors(), acquiresVectors(), releasesVectors(),
		introduceVectors(), whoVectors(), lockersVectors(), liftVectors(), countersVectors(), slotsVectors(), readVectors(), besideReadersVectors(), ownedByReadersVectors())
}

// serverTime is an instant, as its distance from the server's now.
type serverTime time.Duration

// slack is how long a vector may take on a busy machine.
const slack = 2 * time.Second

const runID = "the-run-id" // of the connection of a vector's call

// process is what the connection of a vector's call knows of its server.
var process = scripts.Process{Run: runID, MaxLease: maxLease, Member: "a"}

// connArgs returns the arguments that a connection to the process adds to a call.
func connArgs(call scripts.Call) scripts.ConnArgs {
	args := scripts.ConnArgs{Process: process.String(), Tombstone: scripts.NoTombstone}
	if call.List() != nil {
		args.Expected = process.Expected(call.List())
	}
	return args
}

func runVectors(t *testing.T, s server) {
	seen := map[string]bool{}
	for _, v := range vectors() {
		if name := v.script() + "/" + v.name; seen[name] {
			t.Fatalf("two vectors are called %s", name)
		} else {
			seen[name] = true
		}
		t.Run(v.script()+"/"+v.name, func(t *testing.T) { v.run(t, s) })
	}
}

// script is the name of the script that runs.
func (v vector) script() string {
	if v.shared != nil {
		return v.call.Op() + "s"
	}
	return v.call.Op()
}

// command is the command that is sent.
func (v vector) command(by scripts.ConnArgs) (string, []any) {
	if v.shared != nil {
		return scripts.RunCommand(nil, v.shared, true, by)
	}
	return v.call.Command(nil, true, by)
}

// whole is a command with its name, as Do takes it.
func whole(name string, args []any) []any { return append([]any{name}, args...) }

// send sends a call with what a connection adds to it.
func send(s server, call scripts.Call) (any, error) {
	return s.Do(whole(call.Command(nil, true, connArgs(call)))...)
}

// sendRun sends calls in one run.
func sendRun(s server, calls []scripts.Call) (any, error) {
	return s.Do(whole(scripts.RunCommand(nil, calls, true, connArgs(calls[0])))...)
}

func (v vector) run(t *testing.T, s server) {
	testkit.Do(t, s, "FLUSHALL")
	prepare(t, s, v.before)
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
		sameSnapshot(t, first, snapshot(t, s), slack) // the second run may restore a time to live
	}
}

func (v vector) runOnce(t *testing.T, s server, published []message) {
	t.Helper()
	by := connArgs(v.call)
	if v.tombstone != 0 {
		by.Tombstone = v.tombstone.Milliseconds()
	}
	command := whole(v.command(by))
	var reply any
	var err error
	heard, listenErr := s.Listen(func() { reply, err = s.Do(command...) })
	testkit.Must(t, listenErr)
	testkit.Check(t, slices.Equal(heard, published), "published %q, want %q", heard, published)
	if v.err != "" {
		var refused redis.Error
		testkit.Check(t, errors.As(err, &refused) && strings.Contains(string(refused), v.err),
			"replied %v (%v), want an error with %q", reply, err, v.err)
		return
	}
	testkit.Must(t, err)
	if v.parse == nil {
		v.parse = func(reply any) (any, error) { return typed(v.call, reply) }
	}
	got, err := v.parse(reply)
	testkit.Must(t, err)
	testkit.Check(t, sameReply(got, v.want), "replied %+v, want %+v", got, v.want)
}

// sameReply compares durations to within the slack, and everything else exactly.
func sameReply(got, want any) bool {
	if list, ok := want.([]any); ok {
		return slices.EqualFunc(got.([]any), list, sameReply)
	}
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

// prepare makes a state of the server's.
func prepare(t *testing.T, s server, commands [][]any) {
	t.Helper()
	for _, command := range commands {
		testkit.Do(t, s, resolve(t, s, command)...)
	}
}

func resolve(t *testing.T, s server, command []any) []any {
	t.Helper()
	command = slices.Clone(command)
	for i, arg := range command {
		switch arg := arg.(type) {
		case serverTime:
			command[i] = now(t, s) + time.Duration(arg).Milliseconds()
		case func(now time.Duration) string:
			command[i] = arg(time.Duration(now(t, s)) * time.Millisecond)
		}
	}
	return command
}

// now returns the server's time in milliseconds.
func now(t *testing.T, s server) int64 {
	t.Helper()
	parts, err := redis.Int64s(s.Do("TIME"))
	if err != nil || len(parts) != 2 {
		t.Fatalf("TIME: %v %v", parts, err)
	}
	return parts[0]*1000 + parts[1]/1000
}

// entry is a key's state.
type entry struct {
	content string
	ttl     time.Duration
	scores  string // of a sorted set; a second run may raise them
}

func snapshot(t *testing.T, s server) map[string]entry {
	t.Helper()
	keys, err := redis.Strings(s.Do("KEYS", "*"))
	testkit.Must(t, err)
	entries := map[string]entry{}
	for _, key := range keys {
		kind, err := redis.String(s.Do("TYPE", key))
		testkit.Must(t, err)
		var content any
		var scores []string
		switch kind {
		case "string":
			content, err = redis.String(s.Do("GET", key))
		case "hash":
			content, err = redis.StringMap(s.Do("HGETALL", key))
		case "list":
			content, err = redis.Strings(s.Do("LRANGE", key, 0, -1))
		case "zset":
			content, scores = sortedSet(t, s, key)
		default:
			t.Fatalf("%q is a %s", key, kind)
		}
		testkit.Must(t, err)
		entries[key] = entry{fmt.Sprintf("%s %q", kind, content), ttlOf(t, s, key), fmt.Sprint(scores)}
	}
	return entries
}

// sameSnapshot accepts times to live that have run, or were raised by so much.
func sameSnapshot(t *testing.T, before, after map[string]entry, raised time.Duration) {
	t.Helper()
	for key, was := range before {
		is, ok := after[key]
		testkit.Check(t, ok && (raised != 0 || is.scores == was.scores) && is.content == was.content &&
			(within(is.ttl, was.ttl) || within(is.ttl-raised, was.ttl)), "%q was %+v and is %+v", key, was, is)
	}
	for key := range after {
		_, ok := before[key]
		testkit.Check(t, ok, "%q was written: %+v", key, after[key])
	}
}

// check is a condition on a server's state.
type check func(*testing.T, server)

// hash holds when the hash has exactly these fields and values.
func hash(key string, fields ...string) check {
	want := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		want[fields[i]] = fields[i+1]
	}
	return func(t *testing.T, s server) {
		t.Helper()
		got, err := redis.StringMap(s.Do("HGETALL", key))
		testkit.Check(t, err == nil && reflect.DeepEqual(got, want), "the hash %q is %q (%v), want %q", key, got, err, want)
	}
}

func text(key, want string) check {
	return func(t *testing.T, s server) {
		t.Helper()
		got, err := redis.String(s.Do("GET", key))
		testkit.Check(t, got == want && err == nil, "%q is %q (%v), want %q", key, got, err, want)
	}
}

// counter holds when the name's token counter has that value, and does not expire.
func counter(name, want string) check {
	key := counterOf(name)
	return func(t *testing.T, s server) {
		t.Helper()
		text(key, want)(t, s)
		ttl(key, -1)(t, s)
	}
}

// ttl holds when the key has that time to live, to within the slack.
func ttl(key string, want time.Duration) check {
	return func(t *testing.T, s server) {
		t.Helper()
		got := ttlOf(t, s, key)
		testkit.Check(t, within(got, want), "%q has %v to live, want %v", key, got, want)
	}
}

// absent holds when none of the keys exists.
func absent(keys ...string) check {
	return func(t *testing.T, s server) {
		t.Helper()
		for _, key := range keys {
			n, err := redis.Int(s.Do("EXISTS", key))
			testkit.Check(t, n == 0 && err == nil, "%q exists (%v)", key, err)
		}
	}
}

// ttlOf returns −1 for a key without a time to live, −2 for no key.
func ttlOf(t *testing.T, s server, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do("PTTL", key))
	testkit.Must(t, err)
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

// typed returns the field that a reply to the call sets; true if it sets none.
func typed(call scripts.Call, v any) (any, error) {
	r, err := call.Parse(v)
	if err != nil {
		return nil, err
	}
	switch call.Op() {
	case "acquire", "read":
		return r.Acquire, nil
	case "renew":
		return r.Renew, nil
	case "release":
		return r.Release, nil
	case "raise":
		return r.Raise, nil
	case "force":
		return r.Force, nil
	case "inspect":
		return *r.Inspect, nil
	case "look":
		return *r.Look, nil
	case "mark":
		return *r.Mark, nil
	case "slots":
		return *r.Slots, nil
	case "who":
		return r.Who, nil
	case "introduce":
		return true, nil
	}
	return r.Other, nil
}
