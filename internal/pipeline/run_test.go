package pipeline

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestARunSettlesEachCall(t *testing.T) {
	refused := func(op string, err error) string { return op + ": " + err.Error() + " (nothing done)" }
	malformed := `acquire: scripts: malformed reply to acquires: []interface {} "[7]"`
	play(t, map[string]talk{
		"all granted": {"A1 A2 A3", []exchange{{"acquires 3", int64(1)}}, "granted 101; granted 102; granted 103"},
		"one held":    {"A1 A2 A3", []exchange{{"acquires 3", []any{bulk("7"), held, bulk("9")}}}, "granted 7; held by x:1; granted 9"},
		"one left undone": {"A1 A2 A3", []exchange{{"acquires 3", []any{bulk("7"), int64(0), bulk("9")}}, {"acquire k2", noLock}},
			"granted 7; " + refused("acquire", noLock) + "; granted 9"},
		"all left undone": {"A1 A2 A3", []exchange{{"acquires 3", int64(0)}, {"acquire k1", int64(4)}, {"acquire k2", int64(5)},
			{"acquire k3", int64(6)}}, "granted 4; granted 5; granted 6"},
		"a key that is forbidden": {"A1 A2 A3", []exchange{{"acquires 3", noKey}, {"acquire k1", int64(4)}, {"acquire k2", noKey},
			{"acquire k3", int64(6)}}, "granted 4; " + refused("acquire", noKey) + "; granted 6"},
		"a write that is forbidden": {"A1 A2 A3", []exchange{{"acquires 3", []any{bulk("7"), noWrite, bulk("9")}}},
			"granted 7; acquire: " + noWrite.Error() + "; granted 9"},
		"no memory":         {"A1 A2", []exchange{{"acquires 2", oom}}, refused("acquire", oom) + "; " + refused("acquire", oom)},
		"an unknown script": {"A1 A2", []exchange{{"acquires 2", noScript}, {"acquires 2!", int64(1)}}, "granted 101; granted 102"},
		"a malformed reply": {"A1 A2", []exchange{{"acquires 2", []any{int64(7)}}}, malformed + "; " + malformed},
		"all released":      {"R1 R2", []exchange{{"releases 2", int64(1)}}, "found 1, heard 0; found 1, heard 0"},
		"one heard, one gone": {"R1 R2 R3", []exchange{{"releases 3", []any{[]any{int64(1), int64(4)}, int64(0), int64(1)}}},
			"found 1, heard 4; found 0, heard 0; found 1, heard 0"},
		"releases, an unknown script": {"R1 R2", []exchange{{"releases 2", noScript}, {"releases 2!", int64(1)}},
			"found 1, heard 0; found 1, heard 0"},

		// A release that is refused is kept, and is then sent alone.
		"a release that is forbidden": {"R1 R2 R3", []exchange{{"releases 3", noKey}, {"release k1", int64(1)}, {"release k2", noKey},
			{"release k3", int64(1)}, {"release k2", int64(1)}}, "found 1, heard 0; " + refused("release", noKey) + "; found 1, heard 0"},
		"a message that is forbidden": {"R1 R2 R3", []exchange{{"releases 3", []any{int64(1), noKey, int64(1)}}, {"release k2", int64(1)}},
			"found 1, heard 0; release: " + noKey.Error() + "; found 1, heard 0"},
		"two messages that are forbidden": {"R1 R2", []exchange{{"releases 2", []any{noKey, noKey}}, {"release k1", int64(1)}, {"release k2", int64(1)}},
			"release: " + noKey.Error() + "; release: " + noKey.Error()},
	})
}

// A connection that dies takes its calls along: each is resent, and may arrive late. So a refusal proves nothing then, and the
// owner's release leaves a tombstone, which a run does not write.
func TestACallIsResent(t *testing.T) {
	play(t, map[string]talk{
		"not at all": {"A1|L1|R1", []exchange{{"acquire k1", int64(7)}, {"lower k1", int64(1)}, {"release k1", int64(1)}},
			"granted 7; found 1, heard 0; found 1, heard 0"},
		"granted": {"A1|L1|R1", []exchange{{"acquire k1", nil}, {"acquire k1", int64(7)}, {"lower k1", int64(1)},
			{"release k1 with a tombstone", int64(1)}}, "granted 7, resent; found 1, heard 0; found 1, heard 0"},
		"held":         {"A1", []exchange{{"acquire k1", nil}, {"acquire k1", held}}, "held by x:1, resent"},
		"not accepted": {"A1", []exchange{{"acquire k1", nil}, {"acquire k1", notAccepted}}, "not accepted by run 30000 a, resent"},
		"quarantined":  {"A1", []exchange{{"acquire k1", nil}, {"acquire k1", quarantined}}, "quarantined, resent"},
		"forbidden":    {"A1", []exchange{{"acquire k1", nil}, {"acquire k1", noKey}}, "acquire: " + noKey.Error() + ", resent"},
		"not known by its hash, then cut": {"A1", []exchange{{"acquire k1", noScript}, {"acquire k1!", nil}, {"acquire k1!", held}},
			"held by x:1, resent"},
		"as text, once":              {"A1", []exchange{{"acquire k1", noScript}, {"acquire k1!", noScript}, {"acquire k1!", noScript}}, "acquire: " + noScript.Error()},
		"after a reply that is none": {"A1", []exchange{{"acquire k1", redisconn.ErrReply}, {"acquire k1", int64(7)}}, "granted 7, resent"},
		"not to a busy server":       {"A1", []exchange{{"acquire k1", busy}}, "acquire: " + busy.Error() + " (nothing done)"},
		"at most three times": {"A1", []exchange{{"acquire k1", nil}, {"acquire k1", nil}, {"acquire k1", nil}, {"acquire k1", nil}},
			"acquire: hung up, resent"},
		"in a run": {"A1 A2|R1 R2", []exchange{{"acquires 2", nil}, {"acquires 2", int64(1)}, {"release k1 with a tombstone", int64(1)},
			{"release k2 with a tombstone", int64(1)}}, "granted 101, resent; granted 102, resent; found 1, heard 0; found 1, heard 0"},
		"without those that want a tombstone now": {"A1 R1 R2 R3", []exchange{{"acquire k1", nil}, {"releases 2", int64(1)},
			{"release k1 with a tombstone", int64(1)}},
			"acquire: hung up; found 1, heard 0, resent; found 1, heard 0, resent; found 1, heard 0, resent"},
		"before other calls, to a busy server": {"R1 A2", []exchange{{"release k1", busy}, {"acquire k2", int64(7)}, {"release k1", int64(1)},
			{"acquire k2", int64(7)}}, "found 1, heard 0, resent; granted 7, resent"},
	})
}

// An owner releases while the reply to its acquire is under way: no acquire follows its release.
func TestNoAcquireFollowsItsRelease(t *testing.T) {
	play(t, map[string]talk{
		"left undone by a run": {"A1 A2 A3", []exchange{{"acquires 3", during{"R2", int64(0)}}, {"release k2", int64(0)}, {"acquire k1", int64(5)},
			{"acquire k3", int64(5)}}, "granted 5; released; granted 5; found 0, heard 0"},
		"cut": {"A1 A2 A3", []exchange{{"acquires 3", during{"R2", nil}}, {"release k2 with a tombstone", int64(1)}, {"acquires 2", int64(1)}},
			"granted 101, resent; acquire: hung up; granted 103, resent; found 1, heard 0"},
		"an unknown script": {"A1", []exchange{{"acquire k1", during{"R1", noScript}}, {"release k1", int64(0)}},
			"acquire: NOSCRIPT No matching script.; found 0, heard 0"},
		"not accepted": {"A1", []exchange{{"acquire k1", during{"R1", notAccepted}}, {"release k1", int64(0)}}, "not accepted by run 30000 a; found 0, heard 0"},
	})
}

// Requests of a connection that died are resent before those that were still queued, in the order of their starts.
func TestResentRequestsKeepTheirOrder(t *testing.T) {
	play(t, map[string]talk{"renewals": {"X1|X2", []exchange{{"renew k1", errSilence}, {"renew k2", during{"X3", nil}},
		{"renew k1", bulk("R")}, {"renew k2", bulk("R")}, {"renew k3", bulk("R")}},
		"found 0, heard 0, resent; found 0, heard 0, resent; found 0, heard 0"}})
}

// An acquire was cut off, and waits for a connection that is never made. It may have been carried out.
func TestACutAcquireCountsAsSentWhenTheMasterGoesDown(t *testing.T) {
	withRuns(t, func(string) any { return nil }, func(t *testing.T, r *runs) {
		r.start("A1")
		synctest.Wait() // connected
		r.setDown(true)
		testkit.Equal(t, r.outcomes(t), "connect: down: no server, resent", "the outcome")
	})
}

// A server that stands still: the first call waits for the timeout, and may be carried out. Later ones fail at once, and are not
// sent. Releases go out when it answers again, and bar the owner whose acquire may arrive late.
func TestAServerThatStandsStill(t *testing.T) {
	withRuns(t, inOrder(t, exchange{"acquire k1", int64(7)}, exchange{"acquire k2", errSilence}, exchange{"release k1", int64(1)},
		exchange{"release k2 with a tombstone", int64(1)}, exchange{"acquire k4", int64(8)}), func(t *testing.T, r *runs) {
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "granted 7", "the outcome while it answers")
		r.setDown(true)
		r.start("A2")
		testkit.Pass(900 * time.Millisecond)
		testkit.Equal(t, r.outcomes(t), "none", "the outcome before the timeout")
		testkit.Pass(100 * time.Millisecond)
		testkit.Equal(t, r.outcomes(t), "acquire: timed out after 1s", "the outcome after it")
		r.start("A3 R1 R2")
		const down = "connect: down: no server, not sent"
		testkit.Equal(t, r.outcomes(t), down+"; "+down+"; "+down, "the outcomes while it is down")
		r.setDown(false)
		testkit.Pass(5 * time.Second)
		r.start("A4")
		testkit.Equal(t, r.outcomes(t), "granted 8", "the outcome when it answers again")
	})
}

// Of several requests whose script the server does not know, one brings its text, again and again.
func TestAnUnknownScriptIsSentOnceForAllRequests(t *testing.T) {
	known := false
	withRuns(t, func(command string) any {
		switch {
		case strings.HasSuffix(command, "!"):
			known = true
		case !known:
			return noScript
		}
		return int64(1)
	}, func(t *testing.T, r *runs) {
		for range 3 {
			known = false
			r.start(strings.Repeat("L1 ", 64))
			testkit.Equal(t, strings.Count(r.outcomes(t), "found"), 64, "calls that are carried out")
			testkit.Equal(t, strings.Count(r.commands(), "!"), 1, "times that the text was sent")
		}
	})
}

// A refusal over a connection that was idle is an answer: only silence is not.
func TestARefusalOverAnIdleConnection(t *testing.T) {
	withRuns(t, inOrder(t, exchange{"acquire k1", int64(7)}, exchange{"acquire k2", noKey}), func(t *testing.T, r *runs) {
		r.start("A1")
		testkit.Pass(5 * time.Second)
		r.start("A2")
		testkit.Equal(t, r.outcomes(t), "granted 7; acquire: "+noKey.Error()+" (nothing done)", "the outcomes")
	})
}

// Callers that are about to run while replies are due share a write.
func TestCallersShareAWrite(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each Start wakes the writer before the next caller
	withRuns(t, func(string) any { return errSilence }, func(t *testing.T, r *runs) {
		const callers = 64
		call := scripts.Raise(nil, scripts.OwnerOf("o:1"), 1)
		r.open()
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

// A call is sent again also if the pipe is being closed, and the next connection takes nearly as long as it may.
func TestACallIsResentWhileThePipeCloses(t *testing.T) {
	var r *runs
	reply := inOrder(t, exchange{"acquire k1", nil}, exchange{"acquire k1", int64(7)})
	withRuns(t, func(command string) any { r.pipe.Close(); return reply(command) }, func(t *testing.T, of *runs) {
		r = of
		r.made = func(ctx context.Context, _ *Conn) error {
			time.Sleep(time.Duration(r.conns-1) * 700 * time.Millisecond)
			return ctx.Err()
		}
		r.start("A1")
		testkit.Pass(time.Second)
		testkit.Equal(t, r.outcomes(t), "granted 7, resent", "the outcome")
	})
}

// A closed pipe connects for what is left, and not if that is nothing: Close would wait for a server that may be dead.
func TestAClosedPipeConnectsForNothing(t *testing.T) {
	var r *runs
	var end context.CancelFunc
	hangUp := func(string) any {
		r.footprints["1"].Abandon()
		end()
		r.pipe.Close()
		return nil
	}
	withRuns(t, hangUp, func(t *testing.T, of *runs) {
		r = of
		r.pipe.cfg.Lifetime, end = context.WithCancel(t.Context())
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "acquire: hung up", "the outcome")
		testkit.Equal(t, r.conns, 1, "connections")
	})
}

// A server that hangs up on each new connection is down after three. From then on each backoff has one.
func TestAServerThatHangsUpAtOnce(t *testing.T) {
	withRuns(t, nil, func(t *testing.T, r *runs) {
		r.made = func(context.Context, *Conn) error { return io.EOF }
		r.start("A1")
		testkit.Pass(10 * time.Second)
		testkit.Check(t, r.conns > 20 && r.conns < 70, "%d connections in 10 s", r.conns)
		testkit.Equal(t, r.outcomes(t), "connect: down: EOF, not sent", "the outcome")
	})
}

// A server that has replied over a connection is tried again at once when it falls silent.
func TestASilentServerThatHasReplied(t *testing.T) {
	withRuns(t, inOrder(t, exchange{"acquire k1", int64(7)}, exchange{"acquire k2", errSilence}), func(t *testing.T, r *runs) {
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "granted 7", "the first outcome")
		r.start("A2")
		testkit.Pass(1001 * time.Millisecond)
		testkit.Check(t, r.pipe.Down() == nil && r.conns == 2, "%d connections, down: %v", r.conns, r.pipe.Down())
		testkit.Equal(t, r.outcomes(t), "acquire: timed out after 1s", "the second outcome")
	})
}

// A reply that no request had asked for leaves the reader without a request when the write fails: nobody would notice that the
// connection is dead, and every later call would wait for ever.
func TestAStrayReplyBeforeAHangUp(t *testing.T) {
	withRuns(t, func(string) any { return int64(1) }, func(t *testing.T, r *runs) {
		r.breaks = true
		for range 3 {
			r.start("R1")
			testkit.Pass(10 * time.Second)
			testkit.Check(t, r.outcomes(t) != "none", "a call after the hang-up has no outcome")
		}
	})
}

// A quarantine that a reply reports was there between the request and the reply, whenever that is handed on.
func TestAQuarantineIsReadWithItsTimes(t *testing.T) {
	withRuns(t, func(string) any { return errSilence }, func(t *testing.T, r *runs) {
		log := new(lastReading)
		r.pipe.cfg.Log = log
		r.made = func(_ context.Context, c *Conn) error { c.Quarantine.Left = time.Second; return nil }
		began := time.Now()
		r.start("A1")
		testkit.Pass(500 * time.Millisecond)
		testkit.Equal(t, log.read.Left, time.Second, "what the connection's handshake has read")
		r.last.replies <- quarantined
		testkit.Equal(t, r.outcomes(t), "quarantined", "the outcome")
		q := log.read
		testkit.Check(t, q.Left == 5*time.Millisecond && q.Asked.Equal(began) && q.Came.Equal(began.Add(500*time.Millisecond)), "read: %+v", q)
	})
}

type lastReading struct {
	discardLog
	read Quarantine
}

func (l *lastReading) Quarantined(q Quarantine) { l.read = q }

// The connect timer may fire just after the connection was made. A pipe that it took down then
// would stay down for ever: a live connection is not connected again.
func TestALateConnectTimerLeavesThePipeUp(t *testing.T) {
	p := unconnected()
	for before, after := range map[state]state{connecting: down, up: up} {
		p.mu.Lock()
		p.state = before
		p.mu.Unlock()
		p.goDown(ErrTimeout, true)
		testkit.Equal(t, p.state, after, before)
	}
}
