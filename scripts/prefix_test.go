package scripts

import (
	"strings"
	"testing"
)

func TestReservedNames(t *testing.T) {
	for name, want := range map[string]string{"quorumlock:a": Prefix, "team:quorumlock:lock:a": "team:quorumlock:lock:", "team:quorumlock:marker": "team:quorumlock:marker",
		"team:quorumlock:slot:1:quorumlock:lock:a": "team:quorumlock:slot:", "team:quorumlock:lock:": "team:quorumlock:lock:",
		"app:quorumlock:job": "", "app:quorumlock:": "", "app:quorumlock:marker:a": "", "app:quorumlock:locks:a": "", strings.Repeat("p", 65) + ":quorumlock:lock:a": "",
		"a": "", "quorumlock": "", "team:quorumlock": "", "team:a:quorumlock:b": "", ":quorumlock:a": "", "a b:quorumlock:c": ""} {
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
	for member, want := range map[string]string{"a": "quorumlock:marker", "a/1?prefix=team": "team:quorumlock:marker"} {
		if got := MarkerKeyOf(member); got != want {
			t.Errorf("the marker of %s is at %s, want %s", member, got, want)
		}
	}
}
