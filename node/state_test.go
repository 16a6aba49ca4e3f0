package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// The timer of a connection that is made in the last moment comes too late: a pipe that it took down while the link is alive would
// stay down for ever, since nobody would connect it again.
func TestATimerThatComesTooLateLeavesThePipeUp(t *testing.T) {
	n, err := Open("redis://127.0.0.1:1") // never used
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	p := n.pipes[0]
	for before, after := range map[state]state{connecting: down, up: up} {
		p.mu.Lock()
		p.state = before
		p.mu.Unlock()
		p.giveUpWaiting(ErrTimeout)
		if p.state != after {
			t.Errorf("state %d became %d, want %d", before, p.state, after)
		}
	}
	p.state = idle // for Close
}

// However many releases a server refuses, and for how long: what is kept of them is bounded, they go out seldom, and in the end no
// more.
func TestWhatIsSetAsideIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open("redis://127.0.0.1:1") // never used
		if err != nil {
			t.Fatal(err)
		}
		p := n.pipes[0]
		p.state = up
		refusal := errors.New("refused")
		releaseOf := func(i int) request {
			return request{call: scripts.Release([]scripts.Name{scripts.NewName("k")}, scripts.NewOwner("o", uint64(i)), 0), claim: new(Claim)}
		}
		const many = 3 * maxAside
		for i := range many {
			p.setAside(releaseOf(i), refusal)
		}
		if kept := len(p.aside.waiting); kept != maxAside {
			t.Errorf("%d are kept, want %d", kept, maxAside)
		}

		began, sent := time.Now(), 0
		for time.Since(began) < 2*DefaultMaxLease {
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
			if len(again) > 0 && time.Since(began) > DefaultMaxLease {
				t.Fatalf("sent again after %v", time.Since(began))
			}
		}
		if each := sent / maxAside; each < 5 || each > 15 || len(p.aside.waiting) > 0 {
			t.Errorf("each was sent %d times more, and %d are left", each, len(p.aside.waiting))
		}

		p.setAside(releaseOf(many), refusal)
		p.state = idle // for Close
		if err := n.Close(); err != nil || len(p.aside.waiting) > 0 {
			t.Errorf("Close: %v, %d are left", err, len(p.aside.waiting))
		}
	})
}
