package scripts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A slot's key has the number and no count of slots, and all slots of a semaphore have one channel.
func TestSlotNames(t *testing.T) {
	for _, semaphore := range []string{"a", "{a}", "a{b", "7:a", ":", ""} {
		for _, slot := range []int{0, 7, 1023} {
			name := SlotName(semaphore, slot)
			if want := fmt.Sprintf("quorumlock:slot:%d:%s", slot, semaphore); name != want {
				t.Errorf("slot %d of %q is %q", slot, semaphore, name)
			}
			if of, number, ok := ParseSlot(name); of != semaphore || number != slot || !ok {
				t.Errorf("%q is read as slot %d of %q, %v", name, number, of, ok)
			}
			if n, all := NewName(name), Channel("quorumlock:slots:"+semaphore); n.key != name || n.channel != all || Channel(name) != all {
				t.Errorf("%q: key %q, channels %q and %q, want %q", name, n.key, n.channel, Channel(name), all)
			}
		}
	}
	if names := SlotNames("a", []int{3, 0}); !slices.Equal(names, []string{"quorumlock:slot:3:a", "quorumlock:slot:0:a"}) {
		t.Errorf("two slots are %q", names)
	}
	if names := NewNames(nil, []string{"a", "b"}); len(names) != 2 || names[1] != NewName("b") {
		t.Errorf("two names are %v", names)
	}
	for _, name := range []string{"a", "quorumlock:slot", "quorumlock:slot:", "quorumlock:slot:1", "quorumlock:slot:x:a",
		"quorumlock:slot:-1:a", "quorumlock:slot:99999999999999999999:a", "quorumlock:slot:01:a", "quorumlock:slot:+1:a", "quorumlock:slots:a"} {
		if _, _, ok := ParseSlot(name); ok {
			t.Errorf("%q is read as a slot", name)
		}
		if want := "redisson_lock__channel:{" + name + "}"; Channel(name) != want {
			t.Errorf("the channel of %q is %q", name, Channel(name))
		}
	}
}

// Names spread over the counters as by chance: of a million names on 65,536 counters, each has 15 on
// average, and the fullest 37 or so.
func TestNamesSpreadOverTheCounters(t *testing.T) {
	for _, pattern := range []string{"order:%d", "%d", "user:%08d:mail", "{tenant-%d}/job"} {
		var names [TokenCounters]int
		for i := range 1_000_000 {
			names[counterNumber(fmt.Sprintf(pattern, i))]++
		}
		used, most := 0, 0
		for _, n := range names {
			most = max(most, n)
			if n > 0 {
				used++
			}
		}
		t.Logf("%s: %d of %d counters, at most %d names on one", pattern, used, TokenCounters, most)
		if used < TokenCounters*95/100 || most > 80 {
			t.Errorf("%s: %d of %d counters are used, with %d names on one", pattern, used, TokenCounters, most)
		}
	}
}

// A trial leaves no counter of its own.
func TestTrialsShareACounter(t *testing.T) {
	if one, other := TrialName("a"), TrialName("b"); one.Counter() != other.Counter() || one.key == other.key || one.channel == other.channel {
		t.Errorf("%+v and %+v", one, other)
	}
}

func TestReservedNames(t *testing.T) {
	for name, want := range map[string]string{"quorumlock:a": Prefix, "team:quorumlock:lock:a": "team:quorumlock:lock:", "team:quorumlock:marker": "team:quorumlock:marker",
		"team:quorumlock:slot:1:quorumlock:lock:a": "team:quorumlock:slot:", "team:quorumlock:lock:": "team:quorumlock:lock:",
		"app:quorumlock:job": "", "app:quorumlock:": "", "app:quorumlock:marker:a": "", "app:quorumlock:locks:a": "", strings.Repeat("p", 65) + ":quorumlock:lock:a": "",
		"a": "", "quorumlock": "", "team:quorumlock": "", "team:quorumlock:lock": "", "team:a:quorumlock:b": "", ":quorumlock:a": "", "a b:quorumlock:c": ""} {
		if got := Reserved(name); got != want {
			t.Errorf("%q begins with the reserved %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"HOST:06379?prefix=team": "host:6379?prefix=team", "HOST:6379/1?prefix=Team": "host:6379/1?prefix=Team",
		"a?prefix=B": "a?prefix=B"} {
		if got := Canonical(name); got != want {
			t.Errorf("%s is spelled %s, want %s", name, got, want)
		}
	}
	for prefix, want := range map[string]bool{"team": true, "Te.a_m-1": true, strings.Repeat("p", 64): true, strings.Repeat("p", 65): false,
		"": false, "a:b": false, "a*": false, "quorumlock": false, "redisson_lock__channel": false, "quorumlocks": true} {
		if ValidPrefix(prefix) != want {
			t.Errorf("%q may be a prefix: %v", prefix, !want)
		}
	}
	for want, name := range map[string]string{"host:1": MemberName("HOST:1", 0, ""), "host:1/2?prefix=Team": MemberName("HOST:1", 2, "Team")} {
		if name != want {
			t.Errorf("the member %s is named %s", want, name)
		}
	}
	for member, want := range map[string]string{"a": "quorumlock:marker", "a/1?prefix=team": "team:quorumlock:marker"} {
		if got := MarkerKeyOf(member); got != want {
			t.Errorf("the marker of %s is at %s, want %s", member, got, want)
		}
	}
}
