package scripts

import "testing"

func TestNameIsSentAsItsKeysAndChannel(t *testing.T) {
	for _, name := range []string{"a", "{a}", "a{b", "}", "ä:\x00", ""} {
		n := NewName(name)
		if n.key != name || n.counter != tokenPrefix+name || n.channel != Channel(name) || n.String() != name {
			t.Errorf("%q: key %q, counter %q, channel %q", name, n.key, n.counter, n.channel)
		}
	}
}
