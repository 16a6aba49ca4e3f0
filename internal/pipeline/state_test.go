package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxLease = 30 * time.Second

// unused returns a pipe that never connects.
func unused() *Pipe {
	return New(Config{
		Timeout: time.Second, MaxLease: maxLease, Source: rand.NewPCG(1, 2), Closed: make(chan struct{}), Log: quiet{},
		Connect: func(context.Context) (*Conn, error) { return nil, errors.New("nobody is there") },
		Error:   func(op string, err error) error { return err },
	})
}

// quiet is a log that tells nothing.
type quiet struct{}

func (quiet) Down(error)                         {}
func (quiet) StillDown(error)                    {}
func (quiet) Up()                                {}
func (quiet) Quarantined(time.Duration)          {}
func (quiet) ReleaseRefused(scripts.Call, error) {}

// The timer of a connection that is made in the last moment comes too late: a pipe that it took down while the link is alive would
// stay down for ever, since nobody would connect it again.
func TestATimerThatComesTooLateLeavesThePipeUp(t *testing.T) {
	p := unused()
	for before, after := range map[state]state{connecting: down, up: up} {
		p.mu.Lock()
		p.state = before
		p.mu.Unlock()
		p.stopWaiting(ErrTimeout)
		if p.state != after {
			t.Errorf("state %d became %d, want %d", before, p.state, after)
		}
	}
}

// However many releases a server refuses, and for how long: what is kept of them is bounded, they go out seldom, and in the end no
// more.
func TestWhatIsSetAsideIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unused()
		p.state = up
		refusal := errors.New("refused")
		releaseOf := func(i int) request {
			return request{call: scripts.Release([]scripts.Name{scripts.NewName("k")}, scripts.NewOwner("o", uint64(i)), 0), claim: new(Claim)}
		}
		const many = 3 * maxRefusals
		for i := range many {
			p.setAside(releaseOf(i), refusal)
		}
		if kept := len(p.refused.waiting); kept != maxRefusals {
			t.Errorf("%d are kept, want %d", kept, maxRefusals)
		}

		began, sent := time.Now(), 0
		for time.Since(began) < 2*maxLease {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			p.mu.Lock()
			again := p.queue
			p.queue = nil
			p.mu.Unlock()
			sent += len(again)
			for _, r := range again {
				p.setAside(r, refusal)
			}
			if len(again) > 0 && time.Since(began) > maxLease {
				t.Fatalf("sent again after %v", time.Since(began))
			}
		}
		if each := sent / maxRefusals; each < 5 || each > 15 || len(p.refused.waiting) > 0 {
			t.Errorf("each was sent %d times more, and %d are left", each, len(p.refused.waiting))
		}

		p.setAside(releaseOf(many), refusal)
		p.state = idle // for Close
		<-p.Close()
		if len(p.refused.waiting) > 0 {
			t.Errorf("%d are left after Close", len(p.refused.waiting))
		}
	})
}
