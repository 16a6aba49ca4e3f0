package scripts

import (
	"fmt"
	"testing"
)

func TestNameIsSentAsItsKeysAndChannel(t *testing.T) {
	for _, name := range []string{"a", "{a}", "a{b", "}", "ä:\x00", ""} {
		n := NewName(name)
		counter := fmt.Sprint("quorumlock:counter:", counterSlot(name))
		if n.key != name || n.counter != counter || n.channel != Channel(name) || n.String() != name {
			t.Errorf("%q: key %q, counter %q, channel %q", name, n.key, n.counter, n.channel)
		}
	}
}

// All clients must agree on a name's counter: a change of these values would let tokens repeat.
func TestCounterSlots(t *testing.T) {
	for name, want := range map[string]int{
		"": 7385, "a": 52512, "foobar": 18164, "orders:42": 39459, "\x00\xff": 5591,
	} {
		if got := counterSlot(name); got != want {
			t.Errorf("the slot of %q is %d, want %d", name, got, want)
		}
	}
}

// Names spread over the counters as by chance: of a million names on 65,536 counters, each has 15 on
// average, and the fullest 37 or so.
func TestNamesSpreadOverTheCounters(t *testing.T) {
	for _, pattern := range []string{"order:%d", "%d", "user:%08d:mail", "{tenant-%d}/job"} {
		var names [counterSlots]int
		for i := range 1_000_000 {
			names[counterSlot(fmt.Sprintf(pattern, i))]++
		}
		used, most := 0, 0
		for _, n := range names {
			most = max(most, n)
			if n > 0 {
				used++
			}
		}
		t.Logf("%s: %d of %d counters, at most %d names on one", pattern, used, counterSlots, most)
		if used < counterSlots*95/100 || most > 80 {
			t.Errorf("%s: %d of %d counters are used, with %d names on one", pattern, used, counterSlots, most)
		}
	}
}
