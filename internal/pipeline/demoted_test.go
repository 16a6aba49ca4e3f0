package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// What a server says that was made a replica ends the connection, and the calls go to the next one. They count as sent once
// if it is proven that nothing of them was done. TestWhatErrorRepliesMean of redisconn has the words.
func TestAServerThatIsNoMasterAnyMoreIsLeft(t *testing.T) {
	play(t, map[string]talk{
		"proven": {"A1|A2|R2", []exchange{{"acquire k1", int64(7)}, {"acquire k2", readOnly}, {"acquire k2", int64(8)}, {"release k2", int64(1)}},
			"granted 7; granted 8; found 1, heard 0"},
		// In the words of Redis 6, READONLY comes from inside the script, and proves nothing.
		"in doubt": {"A1|A2|R2", []exchange{{"acquire k1", int64(7)}, {"acquire k2", readOnly6}, {"acquire k2", int64(8)},
			{"release k2 with a tombstone", int64(1)}}, "granted 7; granted 8, resent; found 1, heard 0"},
		// The calls behind the one that is refused are resent in their order, and so is a release.
		"one after the other": {"A9", []exchange{{"acquire k9", during{"R1 A2", int64(1)}}, {"release k1", readOnly}, {"acquire k2", readOnly},
			{"release k1", int64(1)}, {"acquire k2", int64(1)}}, "granted 109; found 1, heard 0; granted 102, resent"},
		// Of a run, what a replica refuses goes to the next connection, and the rest was done.
		"in a run": {"R1 R2 R3", []exchange{{"releases 3", []any{int64(0), readOnly, int64(0)}}, {"release k2", int64(1)}},
			"found 0, heard 0; found 1, heard 0; found 0, heard 0"},
		// A release that such a server refuses at once is owed: the next connection begins with it.
		"a release at once": {"R1", []exchange{{"release k1", readOnly}, {"release k1", int64(1)}},
			"connect: down: " + readOnly.Error() + ", not sent"},
	})
}

// A server whose handshake is a master's, and that refuses all writes as a replica, is down: it is connected to with
// the backoff, and a refused acquire is known to have done nothing. A release is owed.
func TestAMasterThatIsReadOnlyIsDown(t *testing.T) {
	withRuns(t, func(string) any { return readOnly }, func(t *testing.T, r *runs) {
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "acquire: "+readOnly.Error()+" (nothing done)", "the outcome")
		testkit.Equal(t, r.commands(), "acquire k1", "sent")
		r.start("R1")
		testkit.Equal(t, r.outcomes(t), "connect: down: "+readOnly.Error()+", not sent", "the release")
		testkit.Pass(time.Minute)
		testkit.Check(t, r.conns >= 10 && r.conns < 40, "%d connections within a minute", r.conns)
		testkit.Equal(t, strings.Count(r.commands(), "release k1"), r.conns-1, "releases, one by each connection")
		testkit.Check(t, r.pipe.Down() != nil, "it is not down while it refuses the release that is owed")
	})
}

// leave has the pipe leave its connection for another process's, to which the next one leads.
func (r *runs) leave(runID string) {
	r.made = func(_ context.Context, c *Conn) error { c.RunID = runID; return nil }
	r.pipe.Leave(runID, nil)
	testkit.Pass(time.Millisecond)
}

// A pipe leaves its connection for another process's once what was written has its replies.
func TestAPipeLeavesItsConnection(t *testing.T) {
	said := inOrder(t, exchange{"acquire k1", int64(7)}, exchange{"acquire k2", errSilence}, exchange{"acquire k3", int64(7)})
	withRuns(t, said, func(t *testing.T, r *runs) {
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "granted 7", "the outcome")
		r.pipe.Leave("run", nil)
		testkit.Pass(time.Millisecond)
		testkit.Equal(t, r.conns, 1, "connections when it leads to the right process")

		r.start("A2")
		testkit.Equal(t, r.outcomes(t), "none", "the outcome without a reply")
		r.leave("another")
		r.start("A3")
		testkit.Equal(t, r.outcomes(t), "none; none", "the outcomes while a reply is awaited")
		r.last.replies <- int64(7)
		testkit.Equal(t, r.outcomes(t), "granted 7; granted 7", "the outcomes")
		testkit.Equal(t, r.conns, 2, "connections")

		r.leave("a third")
		testkit.Equal(t, r.conns, 3, "connections of an idle pipe that has left")
	})
}

// A connection that was being made when the pipe had to leave is left, too. With a reason, the pipe is down until the
// next connection, which it makes with the backoff.
func TestAPipeLeavesAConnectionThatIsBeingMade(t *testing.T) {
	for _, why := range []error{nil, errors.New("two masters")} {
		withRuns(t, func(string) any { return int64(7) }, func(t *testing.T, r *runs) {
			r.made = func(context.Context, *Conn) error {
				if r.conns <= 5 {
					r.pipe.Leave("another", why)
				} else {
					r.pipe.Leave("run", nil)
				}
				return nil
			}
			began := time.Now()
			r.start("A1")
			if why == nil {
				testkit.Equal(t, r.outcomes(t), "granted 7", "the outcome")
				return
			}
			testkit.Equal(t, r.outcomes(t), "connect: down: two masters, not sent", "the outcome")
			for r.pipe.Down() != nil {
				testkit.Pass(time.Millisecond)
			}
			testkit.Equal(t, r.conns, 6, "connections")
			testkit.Check(t, time.Since(began) >= 100*time.Millisecond, "up after %v: without the backoff", time.Since(began))
		})
	}
}
