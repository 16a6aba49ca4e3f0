package node

import "testing"

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
