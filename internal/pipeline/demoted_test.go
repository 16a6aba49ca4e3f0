package pipeline

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

const readOnly = redis.Error("READONLY You can't write against a read only replica.")

// What a server says that was made a replica ends the connection, and the calls go to the next one: as if they had
// been sent once, since it has done nothing of them. Other refusals end nothing.
func TestAServerThatIsNoMasterAnyMoreIsLeft(t *testing.T) {
	for said, isLeft := range map[redis.Error]bool{
		readOnly: true,
		"READONLY You can't write against a read only replica. script: f, on @user_script:88.":         true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":             true,
		"LOADING Redis is loading the dataset in memory":                                               true,
		"NOREPLICAS Not enough good replicas to write.":                                                false,
		"BUSY Redis is busy running a script.":                                                         false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                      false,
		"CLUSTERDOWN The cluster is down":                                                              false,
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": false,
		"ERR Error running script (call to f_1): @user_script:24: READONLYX":                           false,
	} {
		isDemoted := false
		withRuns(t, func(command string) any {
			if isDemoted {
				isDemoted = false
				return said
			}
			return int64(7)
		}, func(t *testing.T, r *runs) {
			close(r.gate)
			calls := threeAcquires()
			_, results := r.start(calls[0])
			wantList(t, string(said), outcomes(t, results), "granted 7")
			isDemoted = true
			footprints, results := r.start(calls[1])
			got := outcomes(t, results)[0]
			testkit.Check(t, (got == "granted 7") == isLeft, "%s: %s, want that it is left: %v", said, got, isLeft)
			testkit.Equal(t, r.conns == 2, isLeft, said+": connected again")
			testkit.Check(t, !footprints[0].MayArriveLate(), "%s: the acquire that was refused may arrive late", said)
		})
	}
}

// In the words of Redis 6, READONLY comes from inside the script: that nothing was done is not proven.
func TestRedis6ThatIsNoMasterAnyMoreIsLeft(t *testing.T) {
	replies := []any{int64(7), redis.Error("ERR Error running script (call to f_1): @user_script:85: @user_script: 85: " +
		"-READONLY You can't write against a read only replica."), int64(7)}
	withRuns(t, next(&replies), func(t *testing.T, r *runs) {
		close(r.gate)
		for i, call := range threeAcquires()[:2] {
			footprints, results := r.start(call)
			wantList(t, "the outcome", outcomes(t, results), []string{"granted 7", "granted 7, resent"}[i])
			testkit.Equal(t, footprints[0].MayArriveLate(), i == 1, "may arrive late")
		}
		testkit.Equal(t, r.conns, 2, "connections")
	})
}

// next replies with one after the other.
func next(replies *[]any) func(string) any {
	return func(string) (reply any) {
		reply, *replies = (*replies)[0], (*replies)[1:]
		return reply
	}
}

// The calls behind the one that is refused are resent in their order, and so is a release.
func TestCallsOfAServerThatIsNoMasterKeepTheirOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what is started together is written together
	replies := []any{int64(1), readOnly, readOnly, int64(1), int64(1)}
	withRuns(t, next(&replies), func(t *testing.T, r *runs) {
		close(r.gate)
		calls := []scripts.Call{threeAcquires()[0], threeReleases()[0]}
		_, results := r.start(calls[0])
		outcomes(t, results)
		_, results = r.start(calls[1], calls[0])
		wantList(t, "the outcomes", outcomes(t, results), "found 1, heard 0", "granted 101, resent")
		wantList(t, "sent", r.commands(), "acquire k1", "release k1", "acquire k1", "release k1", "acquire k1")
	})
}

// Of a run, what a replica refuses goes to the next connection, and the rest was done.
func TestARunOfAServerThatIsNoMasterAnyMore(t *testing.T) {
	replies := map[string]any{"releases 3": []any{int64(0), readOnly, int64(0)}, "release k2": int64(1)}
	withRuns(t, always(t, replies), func(t *testing.T, r *runs) {
		_, results := r.start(threeReleases()...)
		close(r.gate)
		wantList(t, "the outcomes", outcomes(t, results), "found 0, heard 0", "found 1, heard 0", "found 0, heard 0")
		wantList(t, "sent", r.commands(), "releases 3", "release k2")
		testkit.Equal(t, r.conns, 2, "connections")
	})
}

// A server whose handshake is a master's, and that refuses all writes as a replica, is down: it is connected to with
// the backoff, and a refused acquire is known to have done nothing. A release is owed.
func TestAMasterThatIsReadOnlyIsDown(t *testing.T) {
	withRuns(t, func(string) any { return readOnly }, func(t *testing.T, r *runs) {
		close(r.gate)
		_, results := r.start(threeAcquires()[0])
		wantList(t, "the outcome", outcomes(t, results), "acquire: "+string(readOnly)+" (nothing done)")
		testkit.Check(t, r.pipe.Down() != nil, "it is not down")
		release := threeReleases()[0]
		if err := r.pipe.Start(release, new(Footprint), nil); err == nil {
			t.Error("a release is accepted while the pipe is down")
		}
		time.Sleep(time.Minute)
		testkit.Pass(time.Millisecond)
		sent := r.commands()
		testkit.Check(t, r.conns >= 10 && r.conns < 40, "%d connections within a minute", r.conns)
		testkit.Equal(t, len(sent), r.conns, "commands")
		testkit.Equal(t, sent[len(sent)-1], "release k1", "the last command")
		testkit.Check(t, r.pipe.Down() != nil, "it is not down while it refuses the release that is owed")
	})
}

// A release that such a server refuses at once is owed: the next connection begins with it.
func TestAReleaseThatAReplicaRefusesAtOnceIsOwed(t *testing.T) {
	replies := []any{readOnly, int64(1), int64(7)}
	withRuns(t, next(&replies), func(t *testing.T, r *runs) {
		close(r.gate)
		_, results := r.start(threeReleases()[0])
		wantList(t, "the outcome", outcomes(t, results), "connect: down: "+string(readOnly))
		for r.pipe.Down() != nil {
			testkit.Pass(time.Millisecond)
		}
		wantList(t, "sent when it is up", r.commands(), "release k1", "release k1")
	})
}

// leave has the pipe leave its connection for another process's, to which the next one leads.
func (r *runs) leave(runID string) {
	r.made = func(_ context.Context, c *Conn) error { c.RunID = runID; return nil }
	r.pipe.Leave(runID, nil)
}

// A pipe leaves its connection for another process's once what was written has its replies.
func TestAPipeLeavesItsConnection(t *testing.T) {
	withRuns(t, func(command string) any {
		if command == "acquire k2" {
			return errSilence
		}
		return int64(7)
	}, func(t *testing.T, r *runs) {
		close(r.gate)
		calls := threeAcquires()
		_, results := r.start(calls[0])
		outcomes(t, results)
		r.pipe.Leave("run", nil)
		testkit.Pass(time.Millisecond)
		testkit.Equal(t, r.conns, 1, "connections when it leads to the right process")

		_, under := r.start(calls[1])
		testkit.Pass(time.Millisecond)
		r.leave("another")
		testkit.Pass(time.Millisecond)
		_, behind := r.start(calls[2])
		testkit.Pass(time.Millisecond)
		testkit.Equal(t, len(under[0])+len(behind[0]), 0, "outcomes while a reply is awaited")
		r.mu.Lock()
		r.last.replies <- int64(7)
		r.mu.Unlock()
		wantList(t, "the outcomes", outcomes(t, append(under, behind...)), "granted 7", "granted 7")
		wantList(t, "sent", r.commands(), "acquire k1", "acquire k2", "acquire k3")
		testkit.Equal(t, r.conns, 2, "connections")

		r.leave("a third")
		testkit.Pass(time.Millisecond)
		testkit.Equal(t, r.conns, 3, "connections of an idle pipe that has left")
	})
}

// A connection that was being made when the pipe had to leave is left, too. With a reason, the pipe is down until the
// next connection, which it makes with the backoff.
func TestAPipeLeavesAConnectionThatIsBeingMade(t *testing.T) {
	for _, why := range []error{nil, errors.New("two masters")} {
		withRuns(t, func(string) any { return int64(7) }, func(t *testing.T, r *runs) {
			close(r.gate)
			r.made = func(context.Context, *Conn) error {
				if r.conns <= 5 {
					r.pipe.Leave("another", why)
				} else {
					r.pipe.Leave("run", nil)
				}
				return nil
			}
			began := time.Now()
			_, results := r.start(threeAcquires()[0])
			if why == nil {
				wantList(t, "the outcome", outcomes(t, results), "granted 7")
				return
			}
			wantList(t, "the outcome", outcomes(t, results), "connect: down: two masters")
			for r.pipe.Down() != nil {
				testkit.Pass(time.Millisecond)
			}
			testkit.Equal(t, r.conns, 6, "connections")
			testkit.Check(t, time.Since(began) >= 100*time.Millisecond, "up after %v: without the backoff", time.Since(began))
		})
	}
}
