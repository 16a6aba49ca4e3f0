package pipeline

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

var errRefused = errors.New("refused")

// releaseOf returns a release of one owner of many.
func releaseOf(i int) request {
	call := scripts.Release([]scripts.Name{scripts.NewName("k")}, scripts.NewOwner("o", uint64(i)), 0)
	return request{call: call, claim: new(Claim)}
}

// refusalCount counts the refused releases that are logged.
type refusalCount struct {
	discardLog
	refused int
}

func (c *refusalCount) ReleaseRefused(scripts.Call, error) { c.refused++ }

// The node goes down with each retry of a refused release, which is then owed and refused again.
// The retries end one max lease after the first refusal all the same, and the log has one line.
func TestARefusedReleaseKeepsItsEndOverOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := unconnected(), new(refusalCount)
		p.cfg.Log = log
		p.goUp(new(Conn))
		r := releaseOf(0)
		began, resent := time.Now(), 0
		p.setAside(r, errRefused)
		for time.Since(began) < 3*maxLease {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			p.mu.Lock()
			retried := len(p.queue) > 0
			p.mu.Unlock()
			if !retried {
				continue
			}
			if resent++; time.Since(began) > maxLease {
				t.Fatalf("resent after %v", time.Since(began))
			}
			p.goDown(ErrTimeout)
			p.mu.Lock()
			owed := p.owed[r.claim]
			p.mu.Unlock()
			if owed == nil {
				t.Fatal("the release is not owed")
			}
			p.settleOwed(owed, errRefused)
			if !p.goUp(new(Conn)) {
				t.Fatal("the release is still owed")
			}
		}
		if resent < 5 || len(p.aside.requests) > 0 {
			t.Errorf("resent %d times, and %d are left", resent, len(p.aside.requests))
		}
		if log.refused != 1 {
			t.Errorf("the refusal was logged %d times", log.refused)
		}
	})
}

// A release whose key must have expired is not set aside again: in a full list it would take the
// place of a key that is still there.
func TestAReleaseWhoseEndHasComeIsNotSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.state = up
		for i := range maxSetAside {
			p.setAside(releaseOf(i), errRefused)
		}
		oldest := p.aside.requests[0]
		expired := releaseOf(maxSetAside)
		expired.retry = &retry{pause: minRetryPause, due: time.Now(), end: time.Now()}
		p.setAside(expired, errRefused)
		if len(p.aside.requests) != maxSetAside || p.aside.requests[0] != oldest {
			t.Error("it took the place of another release")
		}
		p.aside.remove(oldest.claim)
		p.setAside(expired, errRefused)
		if len(p.aside.requests) != maxSetAside-1 {
			t.Error("it was set aside")
		}
		p.state = idle // for Close
		closeAndWait(p)
	})
}
