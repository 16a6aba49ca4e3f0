package waiting

import (
	"testing"
	"time"
)

// One answer that comes late counts for an eighth.
func TestRTTIsAMean(t *testing.T) {
	p := NewRTT(3)
	for node := range 3 {
		p.Observe(node, 100*time.Microsecond)
	}
	p.Observe(1, 3*time.Millisecond)
	if got := p.Mean(1); got > time.Millisecond/2 {
		t.Errorf("one late answer has made the mean %v", got)
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
