package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

var errRefused = errors.New("refused")

// releaseOf returns a release of one owner of many.
func releaseOf(i int) request {
	call := scripts.Release([]scripts.Name{scripts.NewName("k")}, scripts.NewOwner("o", uint64(i)), 0)
	return request{call: call, footprint: new(Footprint)}
}

// While a pipe is down, each owner's last release is owed. They are delivered in the order of their starts, over all chunks.
func TestEachOwnersLastReleaseIsOwed(t *testing.T) {
	withRuns(t, func(string) any { return int64(1) }, func(t *testing.T, r *runs) {
		r.isDown = true
		r.start("L1 R2")
		testkit.Equal(t, r.outcomes(t), "connect: down: no server, not sent; connect: down: no server, not sent", "the outcomes")
		r.start("L1 R1")
		want := "release k2, release k1, release k, release k"
		for i := range 2 {
			testkit.Is(t, r.pipe.Start(releaseOf(i).call, nil, nil), ErrDown, "a release without a footprint")
		}
		for i := range 2*debtsChunk + 1 {
			r.start(fmt.Sprint("R", 10+i))
			want += fmt.Sprint(", release k", 10+i)
		}
		r.setDown(false)
		testkit.Pass(5 * time.Second)
		testkit.Equal(t, r.commands(), want, "sent")
	})
}

// What is owed is carried out, or refused, before any other call.
func TestWhatIsOwedIsDeliveredFirst(t *testing.T) {
	for what, c := range map[string]struct {
		owed      string
		exchanges []exchange
	}{
		"releases that become owed meanwhile": {"L1", []exchange{{"lower k1", during{"R1 R2", int64(1)}}, {"release k1", int64(1)},
			{"release k2", int64(1)}, {"acquire k9", int64(7)}}},
		"over a connection that breaks":       {"R1", []exchange{{"release k1", nil}, {"release k1", int64(1)}, {"acquire k9", int64(7)}}},
		"with an answer that is none":         {"R1", []exchange{{"release k1", redisconn.ErrReply}, {"release k1", int64(1)}, {"acquire k9", int64(7)}}},
		"over a connection without an answer": {"R1", []exchange{{"release k1", errSilence}, {"release k1", int64(1)}, {"acquire k9", int64(7)}}},
		"to a busy server":                    {"R1", []exchange{{"release k1", busy}, {"release k1", int64(1)}, {"acquire k9", int64(7)}}},
		"to a server that does not know the script": {"R1 R2", []exchange{{"release k1", noScript}, {"release k2", int64(1)}, {"release k1!", int64(1)},
			{"acquire k9", int64(7)}}},
		"refused": {"R1 R2", []exchange{{"release k1", noKey}, {"release k2", int64(1)}, {"acquire k9", int64(7)}, {"release k1", int64(1)}}},
	} {
		t.Run(what, func(t *testing.T) {
			withRuns(t, inOrder(t, c.exchanges...), func(t *testing.T, r *runs) {
				r.isDown = true
				r.start(c.owed)
				testkit.Check(t, strings.HasPrefix(r.outcomes(t), "connect: down"), "not owed")
				r.setDown(false)
				for r.pipe.Down() != nil {
					testkit.Pass(time.Millisecond)
				}
				r.outcomes(t)
				r.start("A9")
				testkit.Equal(t, r.outcomes(t), "granted 7", "the outcome of another call")
				testkit.Pass(2 * maxRetryPause)
			})
		})
	}
}

// The releases of a run that a server does not answer are owed, each one.
func TestAReleaseOfARunIsOwed(t *testing.T) {
	withRuns(t, inOrder(t, exchange{"releases 2", errSilence}, exchange{"release k1", int64(1)}, exchange{"release k2", int64(1)}),
		func(t *testing.T, r *runs) {
			r.start("R1 R2")
			testkit.Pass(1001 * time.Millisecond)
			testkit.Is(t, r.pipe.Down(), ErrTimeout, "the silent server")
			testkit.Equal(t, r.outcomes(t), "release: timed out after 1s; release: timed out after 1s", "the outcomes")
			testkit.Pass(time.Second)
		})
}

// refusalCount counts the refused releases that are logged.
type refusalCount struct {
	discardLog
	refused int
}

func (c *refusalCount) ReleaseRefused(scripts.Call, error) { c.refused++ }

// The node goes down with each retry of a refused release, which is then owed and refused again.
// The retries still end one max lease after the first refusal, and the log has one line.
func TestARefusedReleaseKeepsItsEndOverOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := unconnected(), new(refusalCount)
		p.cfg.Log = log
		p.goUp(new(Conn))
		r := releaseOf(0)
		began, resent := time.Now(), 0
		p.refused(r, errRefused)
		for time.Since(began) < 3*maxLease {
			testkit.Pass(10 * time.Millisecond)
			p.mu.Lock()
			retried := len(p.queue) > 0
			p.mu.Unlock()
			if !retried {
				continue
			}
			resent++
			testkit.Require(t, time.Since(began) <= maxLease, "resent after %v", time.Since(began))
			p.goDown(ErrTimeout, false)
			p.mu.Lock()
			owed := p.debts.of[r.footprint]
			p.mu.Unlock()
			testkit.Require(t, owed != nil, "the release is not owed")
			p.settle(owed, errRefused)
			testkit.Require(t, len(p.goUp(new(Conn))) == 0, "the release is still owed")
		}
		testkit.Check(t, resent >= 5 && len(p.debts.of) == 0, "resent %d times, and %d are left", resent, len(p.debts.of))
		testkit.Equal(t, log.refused, 1, "times that the refusal was logged")
	})
}

// What the server refuses may be due at any time: it does not keep a pipe from coming up again, but is sent soon after the
// pipe is up.
func TestRefusedReleasesDelayNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.goUp(new(Conn))
		for i := range 100 {
			p.refused(releaseOf(i), errRefused)
		}
		p.goDown(ErrTimeout, false)
		time.Sleep(2 * minRetryPause)
		testkit.Equal(t, len(p.queue), 0, "sent again while the pipe is down")
		testkit.Check(t, len(p.goUp(new(Conn))) == 0, "the pipe waits for releases that were refused")
		testkit.Pass(minRetryPause)
		p.mu.Lock()
		defer p.mu.Unlock()
		testkit.Equal(t, len(p.queue), 100, "sent again")
	})
}

// While a release is sent again, others that are refused do not take its place.
func TestARefusedReleaseKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.state = up
		first := releaseOf(0)
		p.refused(first, errRefused)
		testkit.Pass(2 * minRetryPause)
		p.mu.Lock()
		retried := p.queue
		p.queue = nil
		p.mu.Unlock()
		testkit.Require(t, len(retried) == 1, "%d are sent again", len(retried))
		for i := range maxDebts + 1 {
			p.refused(releaseOf(i+1), errRefused)
		}
		p.refused(retried[0], errRefused)
		testkit.Equal(t, len(p.debts.of), maxDebts+1, "kept")
		testkit.Check(t, p.debts.of[first.footprint] != nil, "the first is not kept")
		p.state = idle // for Close
		closeAndWait(p)
	})
}

// A release whose key must have expired is not kept.
func TestAReleaseWhoseEndHasComeIsNotKept(t *testing.T) {
	p := unconnected()
	p.state = up
	expired := releaseOf(0)
	expired.retry = &retry{pause: minRetryPause, due: time.Now(), end: time.Now()}
	p.refused(expired, errRefused)
	testkit.Check(t, len(p.debts.of) == 0, "it is kept")
}

// A refused release is kept, and sent again, only if something of its owner's may be there. What proves that there is
// nothing may come when the release is on its way already.
func TestARefusedReleaseOfNothingIsNotKept(t *testing.T) {
	refused, again := exchange{"release k1", noKey}, exchange{"release k1", int64(1)}
	late, lateAgain := exchange{"release k1 with a tombstone", noKey}, exchange{"release k1 with a tombstone", int64(1)}
	denied := "release: " + noKey.Error() + " (nothing done)"
	play(t, map[string]talk{
		"granted":                     {"A1|R1", []exchange{{"acquire k1", int64(7)}, refused, again}, "granted 7; " + denied},
		"granted, and released again": {"A1|R1|R1", []exchange{{"acquire k1", int64(7)}, refused, again}, "granted 7; " + denied + "; found 1, heard 0"},
		"held by another":             {"A1|R1", []exchange{{"acquire k1", held}, refused}, "held by x:1; " + denied},
		"quarantined":                 {"A1|R1", []exchange{{"acquire k1", quarantined}, refused}, "quarantined; " + denied},
		"not accepted":                {"A1|R1", []exchange{{"acquire k1", notAccepted}, refused}, "not accepted by run 30000 a; " + denied},
		"the key is forbidden":        {"A1|R1", []exchange{{"acquire k1", noKey}, refused}, "acquire: " + noKey.Error() + " (nothing done); " + denied},
		"a foreign key":               {"A1|R1", []exchange{{"acquire k1", noLock}, refused}, "acquire: " + noLock.Error() + " (nothing done); " + denied},
		"no memory":                   {"A1|R1", []exchange{{"acquire k1", oom}, refused}, "acquire: " + oom.Error() + " (nothing done); " + denied},
		"a reply that proves nothing": {"A1|R1", []exchange{{"acquire k1", noWrite}, refused, again}, "acquire: " + noWrite.Error() + "; " + denied},
		"a malformed reply": {"A1|R1", []exchange{{"acquire k1", bulk("what?")}, refused, again},
			`acquire: scripts: malformed reply to acquire: []uint8 "what?"; ` + denied},
		"resent, then forbidden": {"A1|R1", []exchange{{"acquire k1", nil}, {"acquire k1", noKey}, late, lateAgain},
			"acquire: " + noKey.Error() + ", resent; " + denied},
		"resent, then held": {"A1|R1", []exchange{{"acquire k1", nil}, {"acquire k1", held}, late, lateAgain}, "held by x:1, resent; " + denied},
		"the script is sent as text": {"A1|R1", []exchange{{"acquire k1", noScript}, {"acquire k1!", noKey}, refused},
			"acquire: " + noKey.Error() + " (nothing done); " + denied},
		"the second request is denied": {"A1 A1|R1", []exchange{{"acquire k1", int64(7)}, {"acquire k1", noKey}, refused, again},
			"granted 7; acquire: " + noKey.Error() + " (nothing done); " + denied},
	})
}

// The number of releases for other owners that are kept is bounded, and that of a caller's own is not.
func TestReleasesForOthersAreBounded(t *testing.T) {
	p := unconnected()
	p.state = down
	for i := range maxDebts + 2 {
		_ = p.Start(scripts.ReleaseBarred(testkit.Names("k"), scripts.OwnerOf(fmt.Sprint("o:", i)), maxLease), new(Footprint), nil)
	}
	testkit.Equal(t, len(p.debts.of), maxDebts, "kept")
	own := releaseOf(0)
	_ = p.Start(own.call, own.footprint, nil)
	testkit.Check(t, p.debts.of[own.footprint] != nil, "a caller's own release is not kept")
}

// The number of refused releases that are kept is bounded, their retries become rare, and end after
// one max lease.
func TestRefusedReleasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.state = up
		const many = 3 * maxDebts
		var first *Footprint
		for i := range many {
			r := releaseOf(i)
			p.refused(r, errRefused)
			if i == 0 {
				first = r.footprint
			}
		}
		testkit.Check(t, len(p.debts.of) == maxDebts && p.debts.of[first] != nil, "%d are kept, not the first", len(p.debts.of))

		began, sent := time.Now(), 0
		for time.Since(began) < 2*maxLease {
			testkit.Pass(50 * time.Millisecond)
			p.mu.Lock()
			retried := p.queue
			p.queue = nil
			p.mu.Unlock()
			sent += len(retried)
			for _, r := range retried {
				p.refused(r, errRefused)
			}
			testkit.Require(t, len(retried) == 0 || time.Since(began) <= maxLease, "resent after %v", time.Since(began))
		}
		each := sent / maxDebts
		testkit.Check(t, each >= 5 && each <= 15 && len(p.debts.of) == 0,
			"each was resent %d times, and %d are left", each, len(p.debts.of))

		p.refused(releaseOf(many), errRefused)
		p.state = idle // for Close
		closeAndWait(p)
		testkit.Equal(t, len(p.debts.of), 0, "left after Close")
	})
}
