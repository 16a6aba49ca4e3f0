package pipeline

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// scriptedConn is a connection whose replies a test chooses.
type scriptedConn struct {
	redis.ConnWithTimeout // of the methods that the pipe does not use

	r       *runs
	replies chan any // to the commands that were flushed
	unsent  []any    // commands

	mu  sync.Mutex
	err error
}

var errHungUp = errors.New("hung up")

func (c *scriptedConn) die(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	return err
}

func (c *scriptedConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *scriptedConn) Do(string, ...any) (any, error) { return nil, c.Err() }
func (c *scriptedConn) Close() error                   { return nil }

func (c *scriptedConn) Send(name string, args ...any) error {
	reply := c.r.answer(name, args)
	c.unsent = append(c.unsent, reply)
	return nil
}

func (c *scriptedConn) Flush() error {
	for _, reply := range c.unsent {
		if reply != errSilence {
			c.replies <- reply
		}
	}
	c.unsent = nil
	c.r.flushes.Add(1)
	if c.r.breaks {
		time.Sleep(time.Millisecond) // the reader takes the replies, and waits for the next request
		return c.die(errHungUp)
	}
	return nil
}

func (c *scriptedConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case reply := <-c.replies:
		if reply != nil {
			err, _ := reply.(error)
			return reply, err
		}
		return nil, c.die(errHungUp)
	case <-timer.C:
		return nil, c.die(os.ErrDeadlineExceeded)
	}
}

// runs is a pipe in a bubble, to a server whose replies a test chooses. What is started before open
// shares a write.
type runs struct {
	started func()                             // after the first calls; nil for nothing
	made    func(context.Context, *Conn) error // with each connection; nil for nothing
	t       *testing.T
	pipe    *Pipe
	gate    chan struct{}
	mu      sync.Mutex
	reply   func(command string) any // nil: the connection dies; errSilence: no reply
	sent    []string
	conns   int // made so far
	last    *scriptedConn
	flushes atomic.Int32
	breaks  bool // each write fails, and what it is answered can be read
}

// withRuns runs a test on a pipe that connects once open is called.
func withRuns(t *testing.T, reply func(command string) any, test func(t *testing.T, r *runs)) {
	synctest.Test(t, func(t *testing.T) {
		r := &runs{t: t, gate: make(chan struct{}), reply: reply}
		lifetime, end := context.WithCancel(t.Context())
		r.pipe = newPipe(lifetime, time.Second, func(ctx context.Context) (redis.ConnWithTimeout, error) {
			select {
			case <-r.gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.conns++
			r.last = &scriptedConn{r: r, replies: make(chan any, 1000)}
			return r.last, nil
		})
		connect := r.pipe.cfg.Connect
		r.pipe.cfg.Connect = func(ctx context.Context) (*Conn, error) {
			c, err := connect(ctx)
			if err == nil && r.made != nil {
				err = r.made(ctx, c)
			}
			return c, err
		}
		test(t, r)
		end()
		closeAndWait(r.pipe)
	})
}

// answer notes a command, and returns its reply.
func (r *runs) answer(name string, args []any) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	command := commandOf(name, args)
	r.sent = append(r.sent, command)
	return r.reply(command)
}

// commandOf names a command: "acquires 3" runs for three calls, "acquire k1" for one. One that is sent
// as text ends in an exclamation mark.
func commandOf(name string, args []any) string {
	for _, s := range scripts.All() {
		switch {
		case args[0] != s.Source() && fmt.Sprintf("%x", sha1.Sum([]byte(s.Source()))) != args[0]:
			continue
		case s.Name() == "acquires":
			name = fmt.Sprint("acquires ", (args[1].(int)-1)/3) + mark(name)
		case s.Name() == "releases":
			name = fmt.Sprint("releases ", args[1]) + mark(name)
		default:
			name = fmt.Sprint(s.Name(), " ", args[1+args[1].(int)]) + mark(name)
		}
		return name
	}
	return name
}

func mark(name string) string {
	if name == "EVAL" {
		return "!"
	}
	return ""
}

// commands returns what was sent since the last call of commands.
func (r *runs) commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.sent
	r.sent = nil
	return list
}

// start starts calls, each with a footprint of its own, and returns where their results will be.
func (r *runs) start(calls ...scripts.Call) (footprints []*Footprint, results []resultChan) {
	r.t.Helper()
	for _, call := range calls {
		footprint, result := new(Footprint), make(resultChan, 2)
		testkit.Must(r.t, r.pipe.Start(call, footprint, result))
		footprints, results = append(footprints, footprint), append(results, result)
	}
	if r.started != nil {
		r.started()
	}
	return footprints, results
}

// outcomes returns what the calls' results say, each of which must have come once.
func outcomes(t *testing.T, results []resultChan) (list []string) {
	t.Helper()
	testkit.Pass(time.Millisecond)
	for i, result := range results {
		if len(result) != 1 {
			t.Fatalf("%d results of call %d", len(result), i)
		}
		r := <-result
		text := fmt.Sprintf("found %d, heard %d", r.Reply.Release.Found, r.Reply.Release.Heard)
		switch r.Reply.Acquire.Outcome {
		case scripts.Granted:
			text = fmt.Sprint("granted ", r.Reply.Acquire.Token)
		case scripts.HeldByAnother:
			text = "held by " + r.Reply.Acquire.Holder
		case scripts.Barred:
			text = "released"
		}
		if r.Err != nil {
			text = r.Err.Error()
			if r.NothingDone {
				text += " (nothing done)"
			}
		}
		if r.Resent {
			text += ", resent"
		}
		list = append(list, text)
	}
	return list
}

func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	testkit.Check(t, slices.Equal(got, want), "%s: %q, want %q", what, got, want)
}

// threeAcquires have the seeds 101 to 103.
func threeAcquires() (calls []scripts.Call) {
	for i := range 3 {
		args := acquireArgs(fmt.Sprint(i + 1))
		args.Seed += uint64(100 + i)
		calls = append(calls, scripts.Acquire(args))
	}
	return calls
}

func threeReleases() (calls []scripts.Call) {
	for i := range 3 {
		calls = append(calls, scripts.Release(testkit.Names(fmt.Sprint("k", i+1)), scripts.OwnerOf(fmt.Sprint("o:", i+1)), 0))
	}
	return calls
}

// always replies to the commands of a map.
func always(t *testing.T, replies map[string]any) func(string) any {
	return func(command string) any {
		reply, known := replies[command]
		testkit.Check(t, known, "%q is sent", command)
		return reply
	}
}

func bulk(s string) []byte { return []byte(s) }

func TestARunSettlesEachCall(t *testing.T) {
	var (
		oom     = redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
		noKey   = redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
		noWrite = redis.Error("NOPERM this user has no permissions to run the 'hset' command")
		foreign = redis.Error(`QUORUMLOCK the key "k2" holds a hash that is no lock`)
	)
	for _, test := range []struct {
		name    string
		calls   []scripts.Call
		replies map[string]any
		sent    []string
		want    []string
	}{
		{"all granted", threeAcquires(), map[string]any{"acquires 3": int64(1)},
			[]string{"acquires 3"}, []string{"granted 101", "granted 102", "granted 103"}},
		{"one held", threeAcquires(), map[string]any{"acquires 3": []any{bulk("7"), []any{bulk("held"), int64(5), int64(0), bulk("x:1")}, bulk("9")}},
			[]string{"acquires 3"}, []string{"granted 7", "held by x:1", "granted 9"}},
		{"one left undone", threeAcquires(), map[string]any{"acquires 3": []any{bulk("7"), int64(0), bulk("9")}, "acquire k2": foreign},
			[]string{"acquires 3", "acquire k2"}, []string{"granted 7", "acquire: " + foreign.Error() + " (nothing done)", "granted 9"}},
		{"all left undone", threeAcquires(), map[string]any{"acquires 3": int64(0), "acquire k1": int64(4), "acquire k2": int64(5), "acquire k3": int64(6)},
			[]string{"acquires 3", "acquire k1", "acquire k2", "acquire k3"}, []string{"granted 4", "granted 5", "granted 6"}},
		{"a key that is forbidden", threeAcquires(), map[string]any{"acquires 3": noKey, "acquire k1": int64(4), "acquire k2": noKey, "acquire k3": int64(6)},
			[]string{"acquires 3", "acquire k1", "acquire k2", "acquire k3"}, []string{"granted 4", "acquire: " + noKey.Error() + " (nothing done)", "granted 6"}},
		{"a write that is forbidden", threeAcquires(), map[string]any{"acquires 3": []any{bulk("7"), noWrite, bulk("9")}},
			[]string{"acquires 3"}, []string{"granted 7", "acquire: " + noWrite.Error(), "granted 9"}},
		{"no memory", threeAcquires(), map[string]any{"acquires 3": oom},
			[]string{"acquires 3"}, []string{"acquire: " + oom.Error() + " (nothing done)", "acquire: " + oom.Error() + " (nothing done)",
				"acquire: " + oom.Error() + " (nothing done)"}},
		{"an unknown script", threeAcquires(), map[string]any{"acquires 3": redis.Error("NOSCRIPT No matching script."), "acquires 3!": int64(1)},
			[]string{"acquires 3", "acquires 3!"}, []string{"granted 101", "granted 102", "granted 103"}},
		{"a malformed reply", threeAcquires(), map[string]any{"acquires 3": []any{int64(7), int64(9)}},
			[]string{"acquires 3"}, slices.Repeat([]string{"acquire: scripts: malformed reply to acquires: []interface {} \"[7 9]\""}, 3)},
		{"all released", threeReleases(), map[string]any{"releases 3": int64(1)},
			[]string{"releases 3"}, []string{"found 1, heard 0", "found 1, heard 0", "found 1, heard 0"}},
		{"one heard, one gone", threeReleases(), map[string]any{"releases 3": []any{[]any{int64(1), int64(4)}, int64(0), int64(1)}},
			[]string{"releases 3"}, []string{"found 1, heard 4", "found 0, heard 0", "found 1, heard 0"}},
		{"a release that is forbidden", threeReleases(), map[string]any{"releases 3": noKey, "release k1": int64(1), "release k2": noKey, "release k3": int64(1)},
			[]string{"releases 3", "release k1", "release k2", "release k3"}, []string{"found 1, heard 0", "release: " + noKey.Error() + " (nothing done)", "found 1, heard 0"}},
		{"a message that is forbidden", threeReleases(), map[string]any{"releases 3": []any{int64(1), noKey, int64(1)}},
			[]string{"releases 3"}, []string{"found 1, heard 0", "release: " + noKey.Error(), "found 1, heard 0"}},
		{"releases, an unknown script", threeReleases(), map[string]any{"releases 3": redis.Error("NOSCRIPT No matching script."), "releases 3!": int64(1)},
			[]string{"releases 3", "releases 3!"}, []string{"found 1, heard 0", "found 1, heard 0", "found 1, heard 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withRuns(t, always(t, test.replies), func(t *testing.T, r *runs) {
				_, results := r.start(test.calls...)
				close(r.gate)
				wantList(t, "the outcomes", outcomes(t, results), test.want...)
				wantList(t, "sent", r.commands(), test.sent...)
				r.mu.Lock()
				r.reply = func(string) any { return int64(1) } // to releases that were refused
				r.mu.Unlock()
			})
		})
	}
}

// A release that one run refuses is kept alone: it is sent again after a pause, and the others
// are not.
func TestAReleaseRefusedInARunIsKept(t *testing.T) {
	refusal := redis.Error("NOPERM this user has no permissions to run the 'publish' command")
	replies := map[string]any{"releases 3": []any{int64(1), refusal, int64(1)}, "release k2": int64(1)}
	withRuns(t, always(t, replies), func(t *testing.T, r *runs) {
		_, results := r.start(threeReleases()...)
		close(r.gate)
		outcomes(t, results)
		r.pipe.mu.Lock()
		for _, kept := range r.pipe.debts.of {
			testkit.Check(t, !kept.canShare(), "the release spoils further runs")
		}
		testkit.Equal(t, len(r.pipe.debts.of), 1, "releases kept")
		r.pipe.mu.Unlock()
		testkit.Pass(maxRetryPause)
		wantList(t, "sent", r.commands(), "releases 3", "release k2")
	})
}

// An acquire that a run left undone is not sent again once its owner has released.
func TestNoAcquireFollowsItsReleaseOutOfARun(t *testing.T) {
	var footprints []*Footprint
	reply := func(command string) any {
		if command == "acquires 3" {
			footprints[1].Abandon() // while the reply is under way
			return int64(0)
		}
		return int64(5)
	}
	withRuns(t, reply, func(t *testing.T, r *runs) {
		var results []resultChan
		footprints, results = r.start(threeAcquires()...)
		close(r.gate)
		wantList(t, "the outcomes", outcomes(t, results), "granted 5", "released", "granted 5")
		wantList(t, "sent", r.commands(), "acquires 3", "acquire k1", "acquire k3")
	})
}

// A connection that dies with a run takes its calls along: each is resent, and may arrive late.
func TestARunIsResent(t *testing.T) {
	var footprints []*Footprint
	first := true
	reply := func(string) any {
		if first {
			first = false
			footprints[1].Abandon()
			return nil
		}
		return int64(1)
	}
	withRuns(t, reply, func(t *testing.T, r *runs) {
		var results []resultChan
		footprints, results = r.start(threeAcquires()...)
		close(r.gate)
		wantList(t, "the outcomes", outcomes(t, results), "granted 101, resent", "acquire: hung up", "granted 103, resent")
		wantList(t, "sent", r.commands(), "acquires 3", "acquires 2")
		for i, footprint := range footprints {
			testkit.Check(t, footprint.MayArriveLate(), "the acquire of owner %d cannot arrive late", i+1)
		}
		// So each release wants a tombstone, which a run does not write.
		for i, call := range threeReleases() {
			testkit.Must(t, r.pipe.Start(call, footprints[i], nil))
		}
		synctest.Wait()
		wantList(t, "sent", r.commands(), "release k1", "release k2", "release k3")
	})
}

// A release that shared a run when its connection died may want a tombstone now, and is sent alone.
func TestARunIsResentInParts(t *testing.T) {
	first := true
	reply := func(command string) any {
		if first {
			first = false
			return nil
		}
		return int64(1)
	}
	withRuns(t, reply, func(t *testing.T, r *runs) {
		footprints, results := r.start(threeAcquires()[0])
		for i, call := range threeReleases() {
			if i > 0 {
				footprints = append(footprints, new(Footprint))
			}
			results = append(results, make(resultChan, 1))
			testkit.Must(t, r.pipe.Start(call, footprints[i], results[i+1]))
		}
		close(r.gate)
		wantList(t, "the outcomes", outcomes(t, results), "granted 101, resent", "found 1, heard 0, resent", "found 1, heard 0, resent",
			"found 1, heard 0, resent")
		wantList(t, "sent", r.commands(), "acquire k1", "releases 3", "acquire k1", "releases 2", "release k1")
	})
}

// The releases of a run that a server does not answer are owed, each one.
func TestAReleaseOfARunIsOwed(t *testing.T) {
	replies := map[string]any{"releases 3": errSilence, "release k1": int64(1), "release k2": int64(1), "release k3": int64(1)}
	withRuns(t, always(t, replies), func(t *testing.T, r *runs) {
		_, results := r.start(threeReleases()...)
		close(r.gate)
		time.Sleep(1100 * time.Millisecond)
		for i, text := range outcomes(t, results) {
			testkit.Equal(t, text, "release: timed out after 1s", i)
		}
		time.Sleep(time.Second)
		wantList(t, "sent", r.commands(), "releases 3", "release k1", "release k2", "release k3")
	})
}

var errSilence = errors.New("silence")

// Of several requests whose script the server does not know, one brings its text, again and again.
func TestAnUnknownScriptIsSentOnceForAllRequests(t *testing.T) {
	known := false
	withRuns(t, func(command string) any {
		switch {
		case strings.HasSuffix(command, "!"):
			known = true
		case !known:
			return redis.Error("NOSCRIPT No matching script.")
		}
		return int64(1)
	}, func(t *testing.T, r *runs) {
		close(r.gate)
		for range 3 {
			known = false
			var calls []scripts.Call
			for i := range 64 {
				calls = append(calls, scripts.Release(testkit.Names(fmt.Sprint("k", i)), scripts.OwnerOf(fmt.Sprint("o:", i)), 1))
			}
			_, results := r.start(calls...)
			for i, text := range outcomes(t, results) {
				testkit.Check(t, strings.HasPrefix(text, "found"), "call %d: %s", i, text)
			}
			texts := 0
			for _, command := range r.commands() {
				if strings.HasSuffix(command, "!") {
					texts++
				}
			}
			testkit.Equal(t, texts, 1, "times that the text was sent")
			time.Sleep(time.Millisecond)
		}
	})
}

// Callers that are about to run while replies are due share a write.
func TestCallersShareAWrite(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each Start wakes the writer before the next caller
	withRuns(t, func(string) any { return errSilence }, func(t *testing.T, r *runs) {
		const callers = 64
		call := scripts.Raise(nil, scripts.OwnerOf("o:1"), 1)
		close(r.gate)
		testkit.Must(t, r.pipe.Start(call, nil, nil))
		synctest.Wait() // the reader waits for a reply
		before := r.flushes.Load()
		for range callers {
			go r.pipe.Start(call, nil, nil)
		}
		synctest.Wait()
		n := r.flushes.Load() - before
		testkit.Check(t, n != 0 && n <= callers/4, "%d writes for %d calls", n, callers)
	})
}

// A reply that no request had asked for leaves the reader without a request when the write fails: nobody would notice that the
// connection is dead, and every later call would wait for ever.
func TestAStrayReplyBeforeAHangUp(t *testing.T) {
	withRuns(t, func(string) any { return int64(1) }, func(t *testing.T, r *runs) {
		r.breaks = true
		close(r.gate)
		for range 3 {
			answered := make(resultChan, 1)
			if r.pipe.Start(threeReleases()[0], nil, answered) != nil {
				break // the pipe is down, and says so
			}
			testkit.Pass(10 * time.Second)
			testkit.Equal(t, len(answered), 1, "outcomes of a call after the hang-up")
		}
	})
}
