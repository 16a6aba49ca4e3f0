package waiting

import (
	"testing"
	"time"
)

// A node is slow beside the fastest one, and fast again once its answers are.
func TestRTTFindsSlowNodes(t *testing.T) {
	p := NewRTT(3)
	if p.IsSlow(0) {
		t.Error("a node without a mean is slow")
	}
	for range 20 {
		p.Observe(0, 200*time.Microsecond)
		p.Observe(1, 600*time.Microsecond)
		p.Observe(2, 3*time.Millisecond)
	}
	for node, want := range []bool{false, false, true} {
		if got := p.IsSlow(node); got != want {
			t.Errorf("node %d is slow: %v", node, got)
		}
	}
	for range 20 {
		p.Observe(2, 300*time.Microsecond)
	}
	if p.IsSlow(2) {
		t.Error("a node that is fast again is slow")
	}
}

// A node is slow above twice the fastest one's mean and the margin. A node without a mean is not
// the fastest one.
func TestFromWhenANodeIsSlow(t *testing.T) {
	for mean, want := range map[time.Duration]bool{2200 * time.Microsecond: false, 2400 * time.Microsecond: true} {
		p := NewRTT(3)
		p.Observe(1, time.Millisecond)
		p.Observe(2, mean)
		if p.IsSlow(2) != want {
			t.Errorf("beside 1ms, %v is slow: %v", mean, !want)
		}
	}
	p := NewRTT(3)
	p.Observe(0, 2*time.Millisecond)
	if p.IsSlow(0) {
		t.Error("the only node with a mean is slow")
	}
}

// One answer that comes late does not make a node slow.
func TestRTTIsAMean(t *testing.T) {
	p := NewRTT(3)
	for node := range 3 {
		p.Observe(node, 100*time.Microsecond)
	}
	p.Observe(1, 3*time.Millisecond)
	if p.IsSlow(1) {
		t.Error("one late answer has made it slow")
	}
}

// A step follows the quorum, within its bounds: the slowest nodes do not count.
func TestStepIsThreeRoundTripsOfAQuorum(t *testing.T) {
	for _, of := range []struct {
		means [3]time.Duration
		want  time.Duration
	}{
		{[3]time.Duration{}, MinStep},
		{[3]time.Duration{time.Microsecond, time.Microsecond, time.Second}, MinStep},
		{[3]time.Duration{2 * time.Millisecond, time.Second, time.Millisecond}, 6 * time.Millisecond},
		{[3]time.Duration{time.Second, time.Second, time.Second}, MaxStep},
	} {
		p := NewRTT(3)
		for node, d := range of.means {
			if d > 0 {
				p.Observe(node, d)
			}
		}
		if got := p.Step(2); got != of.want {
			t.Errorf("means %v: a step is %v, want %v", of.means, got, of.want)
		}
	}
}
