package scripts_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestCanonical(t *testing.T) {
	for want, spellings := range map[string][]string{
		"a.example:6379":        {"A.example:6379", "a.example.:6379", "A.EXAMPLE.:06379"},
		"redis:6379":            {"Redis:6379"},
		"10.0.0.1:6379":         {"[::ffff:10.0.0.1]:6379", "[::FFFF:a00:1]:6379", "10.0.0.1.:6379"},
		"10.0.0.1:6379/2":       {"[::ffff:10.0.0.1]:6379/2"},
		"[2001:db8::1]:6379":    {"[2001:DB8:0:0::1]:6379", "[2001:0db8::0001]:6379"},
		"[2001:db8::1]:6379/15": {"[2001:DB8::0:1]:6379/15"},
		"[fe80::1%Eth0]:6379":   {"[FE80::1%Eth0]:6379"},
		// What is no address is not touched, or a name of two masters would be one.
		"":                {},
		"North":           {},
		"North/1":         {},
		"redis.:6379":     {"Redis.:6379"}, // redis:6379 is looked up in search domains
		"a.example":       {},
		"/run/Redis.sock": {},
		"/run/A:6379":     {},
		"/run/A:6379/1":   {},
		"MÜNCHEN:6379":    {},
		"a:70000":         {},
		"A:0":             {},
		"A:+1":            {},
		"A b:6379":        {},
		"A..b:6379":       {},
		"010.0.0.1:6379":  {}, // an octal number, or a host's name
		"::1:6379":        {},
	} {
		for _, spelling := range append(spellings, want) {
			testkit.Check(t, scripts.Canonical(spelling) == want, "%q is %q, want %q", spelling, scripts.Canonical(spelling), want)
		}
	}
}

// FuzzCanonical holds that the one spelling is its own, that a member's name has the database of its master, and that
// spellings differ in capitals, dots and forms of addresses alone.
func FuzzCanonical(f *testing.F) {
	for _, name := range []string{"A.example.:6379", "[::FFFF:1.2.3.4]:1/2", "[fe80::1%A]:6379", "a/1", "/A:1", "Ü:1", "a.:1", "[a]:1", "a.b..:1"} {
		f.Add(name, 1)
	}
	f.Fuzz(func(t *testing.T, name string, database int) {
		once := scripts.Canonical(name)
		testkit.Check(t, scripts.Canonical(once) == once, "%q is %q, and that is %q", name, once, scripts.Canonical(once))
		testkit.Check(t, len(once) <= len(name)+2, "%q is %q, which is longer", name, once)
		for _, prefix := range []string{"", "team"} {
			if database > 0 || prefix != "" {
				member := scripts.MemberName(name, max(database, 0), prefix)
				testkit.Check(t, member == scripts.Canonical(member), "%q in database %d with the prefix %q has two names", name, database, prefix)
			}
		}
	})
}
