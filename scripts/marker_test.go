package scripts_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// aMarker is a marker with every field set.
var aMarker = scripts.Marker{
	Process: scripts.Process{Run: "run/3", MaxLease: 30 * time.Second, Member: "a"}, Admitted: 1700000000001 * time.Millisecond,
	Generation: 1<<53 - 1, Change: 1700000000002 * time.Millisecond,
	Members: scripts.NewList("b", "a", "c"), Next: scripts.NewList("a", "b", "c", "d"),
}

func TestMarkersAreReadAsTheyAreWritten(t *testing.T) {
	change := func(do func(*scripts.Marker)) scripts.Marker { m := aMarker; do(&m); return m }
	for what, m := range map[string]scripts.Marker{
		"every field":         aMarker,
		"claimed":             change(func(m *scripts.Marker) { m.Claimed = true }),
		"admitted long ago":   change(func(m *scripts.Marker) { m.Admitted, m.Change = 0, 0 }),
		"no change under way": change(func(m *scripts.Marker) { m.Next = scripts.NewList() }),
		"admitted, not marked": {Process: aMarker.Process, Admitted: time.Hour, Members: scripts.NewList(),
			Next: scripts.NewList()},
		"strange names": change(func(m *scripts.Marker) {
			m.Member, m.Members, m.Next = "a b,c%\n\x00é\xff?-", scripts.NewList("a b,c%\n\x00é\xff?-", ",", "%2C", " "), scripts.NewList("?", "-")
		}),
	} {
		text := m.String()
		got, err := scripts.ParseMarker(text)
		testkit.Check(t, err == nil && reflect.DeepEqual(got, m) && got.String() == text,
			"%s: %q is read as %+v (%v), want %+v", what, text, got, err, m)
		process, err := scripts.ParseProcess(m.Process.String())
		testkit.Check(t, err == nil && process == m.Process, "%s: the process is read as %+v (%v)", what, process, err)
	}
	for i := range 256 { // every byte of a name
		name := fmt.Sprintf("x%cx%s", i, []byte{byte(i)})
		m := scripts.Marker{Process: scripts.Process{Run: "r", MaxLease: time.Second, Member: name}, Members: scripts.NewList(name, "y"), Next: scripts.NewList()}
		got, err := scripts.ParseMarker(m.String())
		testkit.Check(t, err == nil && reflect.DeepEqual(got, m), "%q: %q is read as %+v (%v)", name, m, got, err)
		testkit.Check(t, strings.Count(m.String(), "\n") == 3, "%q: the marker is %q", name, m)
	}
}

// A process whose replicas may take its place says how many.
func TestReplicasOfAProcess(t *testing.T) {
	for run, want := range map[string]int{"run": 0, "run/3": 0, "run.id": 0, "run.id.2": 2, "run.id.2/3": 2, "run.id.2.1": 0, "run.id.x": 0} {
		testkit.Equal(t, scripts.Process{Run: run}.Replicas(), want, run)
	}
}

// The expected line is the first of a marker that accepts the client, and of no other.
func TestExpectedLines(t *testing.T) {
	p, list := aMarker.Process, scripts.NewList("a", "b", "c")
	long := scripts.Marker{Process: p, Members: list, Next: scripts.NewList()}
	expected := p.Expected(list)
	testkit.Check(t, strings.HasPrefix(long.String(), expected) && strings.Count(expected, "\n") == 1 && strings.HasSuffix(expected, "\n"),
		"%q is expected of %q", expected, long)
	for what, do := range map[string]func(*scripts.Marker){
		"in quarantine":     func(m *scripts.Marker) { m.Admitted = time.Second },
		"another run":       func(m *scripts.Marker) { m.Run = "run" },
		"another max lease": func(m *scripts.Marker) { m.MaxLease = time.Second },
		"another member":    func(m *scripts.Marker) { m.Member = "b" },
		"claimed":           func(m *scripts.Marker) { m.Claimed = true },
		"other members":     func(m *scripts.Marker) { m.Members = scripts.NewList("a", "b", "d") },
		"fewer members":     func(m *scripts.Marker) { m.Members = scripts.NewList("a", "b") },
		"no members":        func(m *scripts.Marker) { m.Members = scripts.NewList() },
	} {
		m := long
		do(&m)
		testkit.Check(t, !strings.HasPrefix(m.String(), expected), "%s: %q begins with %q", what, m, expected)
	}
}

// A marker that spells names otherwise has the same names. It keeps its text, and a client is let in by the line that the text
// begins with, for the members and for the next ones.
func TestMarkersOfOtherSpellings(t *testing.T) {
	p := scripts.Process{Run: "run", MaxLease: time.Second, Member: "a.example:1"}
	two, three := scripts.NewList("a.example:1", "b:1"), scripts.NewList("10.0.0.1:1/2", "a.example:1", "b:1")
	spelled := scripts.Marker{Process: p, Generation: 1, Members: scripts.NewList("B:1", "A.Example.:01"),
		Next: scripts.NewList("[::FFFF:10.0.0.1]:1/2", "A.Example.:1", "b:1")}
	spelled.Member = "A.example.:1"
	digest := func(l *scripts.List) string { return strings.Fields(p.Expected(l))[4] }
	m := testkit.Got(scripts.ParseMarker(spelled.String()))(t)
	testkit.Equal(t, m.String(), spelled.String(), "the text")
	testkit.Check(t, m.Process == p && m.Members.Equal(two) && m.Next.Equal(three) && m.Members.Has("b:1"), "it is read as %+v", m)
	testkit.Check(t, m.Members.HasDigest(digest(two)) && m.Members.HasDigest(digest(spelled.Members)) && !m.Members.HasDigest(digest(three)),
		"the digest of %v", m.Members)
	testkit.Check(t, strings.HasPrefix(m.String(), m.Expected(p, two)), "%q is expected of %q", m.Expected(p, two), m)
	testkit.Check(t, strings.HasSuffix(m.Expected(p, three), " 1000 A.example.:1 "+digest(spelled.Next)+"\n"), "%q is expected of %q", m.Expected(p, three), m)
	other := scripts.Process{Run: "run", MaxLease: time.Second, Member: "b:1"}
	testkit.Equal(t, m.Expected(other, scripts.NewList("c:1")), other.Expected(scripts.NewList("c:1")), "of another member and list")
	for _, change := range []func(m *scripts.Marker){func(m *scripts.Marker) { m.Member = "A:1" },
		func(m *scripts.Marker) { m.Members = scripts.NewList("A:1") }, func(m *scripts.Marker) { m.Next = scripts.NewList("A:1") }} {
		text := scripts.Marker{Process: p, Members: two, Next: three}
		m, err := scripts.ParseMarker(text.String())
		testkit.Check(t, err == nil && m.Expected(p, two) == p.Expected(two) && m.Expected(p, three) == p.Expected(three), "%q has other names", m)
		change(&text)
		m, err = scripts.ParseMarker(text.String())
		testkit.Check(t, err == nil && m.Members.Twice() == "", "%q has a name twice", m)
	}
	m, err := scripts.ParseMarker(scripts.Marker{Process: p, Members: scripts.NewList("A:1", "b", "a:1"), Next: none}.String())
	testkit.Check(t, err == nil && m.Members.Twice() == "a:1" && m.Members.Len() == 3, "a name twice: %+v", m)
}

func TestTextsThatAreNoMarkers(t *testing.T) {
	text := aMarker.String()
	lines := strings.Split(text, "\n")
	for what, bad := range map[string]string{
		"nothing":                     "",
		"words":                       "no marker",
		"a line more":                 text + "\n",
		"a line less":                 strings.Join(lines[:3], "\n"),
		"four empty lines":            "\n\n\n",
		"a field more":                strings.Replace(text, "\n", " 1\n", 1),
		"a field less":                strings.Replace(text, "run/3 ", "", 1),
		"no digest of the members":    strings.Replace(text, " "+strings.Fields(text)[4]+"\n", "\n", 1),
		"no time of the next change":  strings.Replace(text, " 1700000000002", "", 1),
		"a space more":                " " + text,
		"no digits":                   strings.Replace(text, "1700000000001", "x", 1),
		"a sign":                      "+" + text,
		"a leading zero":              "0" + text,
		"before 1970":                 "-" + text,
		"beyond all time":             strings.Replace(text, "1700000000001", "9223372036854775807", 1),
		"the change beyond all time":  strings.Replace(text, "1700000000002", "9223372036854775807", 1),
		"the change before 1970":      strings.Replace(text, "1700000000002", "-1", 1),
		"max lease beyond all time":   strings.Replace(text, " 30000 ", " 9223372036854775807 ", 1),
		"a negative max lease":        strings.Replace(text, " 30000 ", " -1 ", 1),
		"a generation of 2^53":        strings.Replace(text, "9007199254740991", "9007199254740992", 1),
		"a negative generation":       strings.Replace(text, "9007199254740991", "-1", 1),
		"a digest of another list":    strings.Replace(text, "a,b,c", "a,b,d", 1),
		"a list out of order":         strings.Replace(text, "a,b,c", "b,a,c", 1),
		"the next list's digest":      strings.Replace(text, "a,b,c,d", "a,b,c,e", 1),
		"the next list without it":    strings.Join(append(lines[:3:3], "a,b,c,d"), "\n"),
		"a name badly escaped":        strings.Replace(text, "a,b,c", "a,b,%zz", 1),
		"the next one, badly escaped": strings.Replace(text, "c,d", "c,%zz", 1),
		"the member, badly escaped":   strings.Replace(text, " a ", " %zz ", 1),
		"a name escaped without need": strings.Replace(text, " a ", " %61 ", 1),
		"claimed twice":               strings.Replace(scripts.Marker{Process: aMarker.Process, Claimed: true, Members: aMarker.Members, Next: aMarker.Next}.String(), "?", "??", 1),
	} {
		testkit.Require(t, bad != text, "%s: nothing was changed", what)
		m, err := scripts.ParseMarker(bad)
		testkit.Check(t, err != nil && reflect.DeepEqual(m, scripts.Marker{}), "%s: %q is read as %+v (%v)", what, bad, m, err)
	}
	for _, bad := range []string{"", "run", "run 1", "run 1 a b", "run x a", "run -1 a", "run 9223372036854775807 a", "run 1 %zz"} {
		p, err := scripts.ParseProcess(bad)
		testkit.Check(t, err != nil, "%q is read as the process %+v", bad, p)
	}
}

// FuzzMarker reads any text as a marker: nothing panics, and what is read is written as it was. Any
// marker is read as it was written.
func FuzzMarker(f *testing.F) {
	f.Add(aMarker.String(), "run", "a", "b", "c", uint64(1), uint64(2), uint64(3), true)
	f.Add(scripts.Marker{Process: aMarker.Process, Members: scripts.NewList(), Next: scripts.NewList()}.String(), "r", " ", ",", "%", uint64(0), uint64(0), uint64(0), false)
	f.Add("0 r 1 a -\n0 0\n\n- ", "r", "\n", "\xff", "?-", uint64(1<<63), uint64(1<<62), uint64(1<<53), false)
	f.Add("0 r 1 a ?-\n0 0\n\n- ", "r/1", "a", "a", "a", uint64(7), uint64(8), uint64(9), true)
	f.Fuzz(func(t *testing.T, text, run, first, second, third string, admitted, change, generation uint64, claimed bool) {
		if m, err := scripts.ParseMarker(text); err == nil {
			testkit.Check(t, m.String() == text, "%q is written as %q", text, m)
			testkit.Check(t, m.Admitted >= 0 && m.Change >= 0 && m.MaxLease >= 0 && m.Members != nil && m.Next != nil,
				"%q is read as %+v", text, m)
		} else if !reflect.DeepEqual(m, scripts.Marker{}) {
			t.Errorf("%q is read as %+v with %v", text, m, err)
		}
		if run == "" || strings.ContainsFunc(run, func(r rune) bool { return r <= ' ' || r > '~' }) || first == "" || third == "" {
			return // no run id, and no names
		}
		const most = uint64(1<<63-1) / uint64(time.Millisecond)
		ms := func(n uint64) time.Duration { return time.Duration(n%most) * time.Millisecond }
		m := scripts.Marker{Process: scripts.Process{Run: run, MaxLease: ms(admitted / 3), Member: first}, Admitted: ms(admitted), Claimed: claimed,
			Generation: generation % (1 << 53), Change: ms(change), Members: scripts.NewList(first, second), Next: scripts.NewList(third)}
		got, err := scripts.ParseMarker(m.String())
		testkit.Check(t, err == nil && got.String() == m.String() && got.Member == scripts.Canonical(first), "%q is read as %+v (%v)", m, got, err)
		want := m
		want.Member, want.Members, want.Next = scripts.Canonical(first), scripts.NewList(scripts.Canonical(first), scripts.Canonical(second)), scripts.NewList(scripts.Canonical(third))
		testkit.Check(t, got.Members.Equal(want.Members) && got.Next.Equal(want.Next),
			"%q is read as %+v, want %+v", m, got, want)
	})
}

func TestAListHasItsNamesInOrder(t *testing.T) {
	given := []string{"c", "a", "b"}
	l := scripts.NewList(given...)
	testkit.Check(t, slices.Equal(l.Names(), []string{"a", "b", "c"}) && l.Len() == 3 && l.String() == "{a, b, c}",
		"%v has %d names: %q", l, l.Len(), l.Names())
	testkit.Check(t, slices.Equal(given, []string{"c", "a", "b"}), "NewList sorted its argument: %q", given)
	given[1] = "x"
	for name, want := range map[string]bool{"a": true, "b": true, "c": true, "": false, "x": false, "ab": false, "A": false} {
		testkit.Check(t, l.Has(name) == want, "%v has %q: %v", l, name, !want)
	}
	testkit.Check(t, none.Len() == 0 && !none.Has("") && none.String() == "{}", "the empty list is %v", none)
	testkit.Equal(t, scripts.NewList("a b", "c", "é").String(), `{"a b", c, é}`, "a name that could be several")
	marker := scripts.Marker{Process: process, Members: scripts.NewList("é", "\x7f"), Next: none}.String()
	testkit.Check(t, strings.HasSuffix(marker, "\n%7F,%C3%A9\n- "), "names that no terminal shows, and no list: %q", marker)
}

// Two lists are equal when they have the same names. No names look like two.
func TestEqualLists(t *testing.T) {
	same := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}}
	others := [][]string{{}, {"a"}, {"a", "b"}, {"a", "b", "d"}, {"a", "b", "c", "d"}, {"a,b", "c"}, {"a", "b,c"}, {"a,b,c"}, {"a%2Cb", "c"}, {"A", "b", "c"},
		{"a", "b", "c "}, {"a\nb", "c"}, {"a%0Ab", "c"}}
	for _, a := range same {
		l := scripts.NewList(a...)
		for _, b := range same {
			m := scripts.NewList(b...)
			testkit.Check(t, l.Equal(m) && process.Expected(l) == process.Expected(m), "%q and %q differ", a, b)
		}
		for _, b := range others {
			m := scripts.NewList(b...)
			testkit.Check(t, !l.Equal(m) && !m.Equal(l) && process.Expected(l) != process.Expected(m), "%q and %q are equal", a, b)
		}
	}
	for i, a := range others {
		for j, b := range others {
			testkit.Equal(t, scripts.NewList(a...).Equal(scripts.NewList(b...)), i == j, fmt.Sprintf("%q and %q are equal", a, b))
		}
	}
}

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
		"6379":            {},
		"A:06379/":        {},
		"A:06379/x":       {},
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
