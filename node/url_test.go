package node

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestURLs(t *testing.T) {
	type parsed struct {
		endpoint
		name, prefix string
		failover     int
	}
	to := func(e endpoint) parsed { return parsed{endpoint: e} }
	tcp := func(address, host string) parsed {
		return to(endpoint{network: "tcp", address: address, host: host})
	}
	with := func(e parsed, change func(*parsed)) parsed { change(&e); return e }
	plain := tcp("h:6379", "h")
	for url, want := range map[string]parsed{
		"redis://h":                       plain,
		"redis://h/":                      plain,
		"valkey://h":                      plain,
		"REDIS://h":                       plain,
		"redis://h:1234":                  tcp("h:1234", "h"),
		"redis://10.0.0.1:65535":          tcp("10.0.0.1:65535", "10.0.0.1"),
		"redis://[::1]":                   tcp("[::1]:6379", "::1"),
		"redis://[::1]:1234":              tcp("[::1]:1234", "::1"),
		"rediss://h":                      with(plain, func(e *parsed) { e.tls = true }),
		"valkeys://h":                     with(plain, func(e *parsed) { e.tls = true }),
		"redis://h/5":                     with(plain, func(e *parsed) { e.database = 5 }),
		"redis://h?db=5":                  with(plain, func(e *parsed) { e.database = 5 }),
		"redis://h/?db=5":                 with(plain, func(e *parsed) { e.database = 5 }),
		"redis://h?name=north":            with(plain, func(e *parsed) { e.name = "north" }),
		"redis://h/5?name=north":          with(plain, func(e *parsed) { e.name, e.database = "north", 5 }),
		"redis://h?db=5&name=north":       with(plain, func(e *parsed) { e.name, e.database = "north", 5 }),
		"rediss://u:p@h?name=a%2Cb%20c":   with(plain, func(e *parsed) { e.tls, e.username, e.password, e.name = true, "u", "p", "a,b c" }),
		"redis://h/5?name=a&prefix=team":  with(plain, func(e *parsed) { e.name, e.database, e.prefix = "a", 5, "team" }),
		"unix:///run/r?name=a&db=2":       with(to(endpoint{network: "unix", address: "/run/r", database: 2}), func(e *parsed) { e.name = "a" }),
		"redis://:secret@h":               with(plain, func(e *parsed) { e.password = "secret" }),
		"redis://app:secret@h":            with(plain, func(e *parsed) { e.username, e.password = "app", "secret" }),
		"redis://app:se:cr@et@h":          with(plain, func(e *parsed) { e.username, e.password = "app", "se:cr@et" }),
		"redis://a%40b:%2F%3F%23%25@h":    with(plain, func(e *parsed) { e.username, e.password = "a@b", "/?#%" }),
		"unix:///run/redis.sock":          to(endpoint{network: "unix", address: "/run/redis.sock"}),
		"unix:///run/redis.sock?db=2":     to(endpoint{network: "unix", address: "/run/redis.sock", database: 2}),
		"unix://app:secret@/run/r":        to(endpoint{network: "unix", address: "/run/r", username: "app", password: "secret"}),
		"unix:///run/with%20space":        to(endpoint{network: "unix", address: "/run/with space"}),
		"unix:///run/redis@a.sock":        to(endpoint{network: "unix", address: "/run/redis@a.sock"}),
		"unix://app:secret@/r%40a":        to(endpoint{network: "unix", address: "/r@a", username: "app", password: "secret"}),
		"redis://:@h/0":                   plain,
		"\ufeff redis://h?name=a \r\n":    with(plain, func(e *parsed) { e.name = "a" }),
		"redis://h/5?failover=16&name=a":  with(plain, func(e *parsed) { e.name, e.database, e.failover = "a", 5, 16 }),
		"rediss://10.0.0.1?server-name=h": to(endpoint{network: "tcp", address: "10.0.0.1:6379", host: "h", tls: true}),
	} {
		var o options
		e, err := parseURL(url, &o)
		got := parsed{e, o.name, o.prefix, o.failover}
		if err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", url, got, err, want)
			continue
		}
		n, err := Open(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if name := scripts.MemberName(cmp.Or(want.name, want.address), want.database, want.prefix); n.Name() != name || inside.Of(n).Named != (want.name != "") {
			t.Errorf("%s is named %q (given: %v), want %q", url, n.Name(), inside.Of(n).Named, name)
		}
	}
}

// A name is given once: by the URL, by the option, or the same by both. One of the URL has the
// bounds of one of the option.
func TestNamesOfURLs(t *testing.T) {
	longest := strings.Repeat("x", maxName)
	for what, c := range map[string]struct {
		url, option, want string // want is empty for ErrInvalid
	}{
		"by the URL":               {"redis://h?name=north", "", "north"},
		"by the option":            {"redis://h", "north", "north"},
		"by both":                  {"redis://h?name=north", "north", "north"},
		"by neither":               {"redis://h", "", "h:6379"},
		"another by the option":    {"redis://h?name=north", "south", ""},
		"the longest by the URL":   {"redis://h?name=" + longest, "", longest},
		"too long by the URL":      {"redis://h?name=" + longest + "x", "", ""},
		"too long by the option":   {"redis://h", longest + "x", ""},
		"too long by both":         {"redis://h?name=" + longest + "x", longest + "x", ""},
		"the longest, escaped":     {"redis://h?name=" + strings.Repeat("%2C", maxName), "", strings.Repeat(",", maxName)},
		"an escaped one, too long": {"redis://h?name=" + strings.Repeat("%2C", maxName+1), "", ""},
		"with a blank at its end":  {"redis://h?name=a%20", "", ""},
		"with a control character": {"redis://h?name=a%07b", "", ""},
		"no UTF-8":                 {"redis://h?name=a%ff", "", ""},
		"a URL by the option":      {"redis://h", "redis://:secret@h", ""},
		"a URL by the URL":         {"redis://h?name=redis%3A%2F%2F:secret%40h", "", ""},
		"in database 1":            {"redis://h/1?name=a", "", "a/1"},
		"with the number 1":        {"redis://h/1?name=a/1", "", "a/1"},
		"with another number":      {"redis://h/1?name=a/2", "", ""},
		"with a number in 0":       {"redis://h", "a/1", ""},
		"with 0":                   {"redis://h?name=a/0", "", ""},
		"with a zero before it":    {"redis://h/1?name=a/01", "", ""},
		"with a large number":      {"redis://h?name=a/99999999999", "", ""},
		"with digits within":       {"redis://h?name=a/1/b", "", "a/1/b"},
		"a socket in database 1":   {"unix:///run/r?db=1", "", "/run/r/1"},
		"a socket with a number":   {"unix:///run/redis/6379", "", ""},
		"such a socket, named":     {"unix:///run/redis/6379?name=a", "", "a"},
		"in capitals, with a dot":  {"redis://Redis.Example./1", "", "redis.example:6379/1"},
		"IPv4 in IPv6":             {"redis://[::ffff:10.0.0.1]:06379", "", "10.0.0.1:6379"},
		"long IPv6":                {"redis://[2001:DB8:0::1]", "", "[2001:db8::1]:6379"},
		"an address as a name":     {"redis://h?name=A.b.:1", "", "a.b:1"},
		"one in a database":        {"redis://h/2?name=A:1/2", "", "a:1/2"},
		"a name in capitals":       {"redis://h?name=North", "", "North"},
		"with a prefix":            {"redis://h/2?prefix=team", "", "h:6379/2?prefix=team"},
		"a number and a prefix":    {"redis://h/1?name=a/1&prefix=T.e-a_m", "", "a/1?prefix=T.e-a_m"},
		"a prefix in the name":     {"redis://h?name=a%3Fprefix=team", "", ""},
		"a prefix in the option":   {"redis://h", "a?prefix=team", ""},
		"a prefix in a socket":     {"unix:///run/r%3Fprefix=team", "", ""},
		"an empty prefix":          {"redis://h?prefix=", "", ""},
		"two prefixes":             {"redis://h?prefix=a&prefix=b", "", ""},
		"a prefix with a colon":    {"redis://h?prefix=team:", "", ""},
		"a prefix with braces":     {"redis://h?prefix={team}", "", ""},
		"a prefix with a blank":    {"redis://h?prefix=a%20b", "", ""},
		"a prefix with a pattern":  {"redis://h?prefix=team*", "", ""},
		"the library's prefix":     {"redis://h?prefix=quorumlock", "", ""},
		"the channels' prefix":     {"redis://h?prefix=redisson_lock__channel", "", ""},
		"a name like a key's":      {"redis://h?prefix=team&name=quorumlock:counter:a", "", ""},
		"a name like a channel's":  {"redis://h?prefix=team&name=redisson_lock__channel:a", "", ""},
		"a host like a key":        {"redis://quorumlock?prefix=team", "", "quorumlock:6379?prefix=team"},
		"such a name alone":        {"redis://h?name=quorumlock:counter:a", "", "quorumlock:counter:a"},
		"the longest prefix":       {"redis://h?prefix=" + strings.Repeat("x", 64), "", "h:6379?prefix=" + strings.Repeat("x", 64)},
		"a longer prefix":          {"redis://h?prefix=" + strings.Repeat("x", 65), "", ""},
	} {
		n, err := Open(c.url, WithName(c.option))
		switch {
		case c.want == "" && (!errors.Is(err, ErrInvalid) || n != nil || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		case c.want != "" && (err != nil || n.Name() != c.want):
			t.Errorf("%s: %v, want it to be named %q", what, err, c.want)
		}
	}
}

// The prefix, and the number of replicas, are given once: by the URL, by the option, or the same by both.
func TestOptionsThatURLsHaveToo(t *testing.T) {
	for _, c := range []struct {
		url  string
		opt  Option
		want string // the name and the number of replicas; empty for ErrInvalid
	}{
		{"redis://h", WithPrefix("team"), "h:6379?prefix=team 0"},
		{"redis://h?prefix=team", WithPrefix("team"), "h:6379?prefix=team 0"},
		{"redis://h?prefix=team", WithPrefix("other"), ""},
		{"redis://h?prefix=team", WithPrefix(""), ""},
		{"redis://h", WithPrefix("a:b"), ""},
		{"redis://h?failover=2", WithName(""), "h:6379 2"},
		{"redis://h", WithFailover(2), "h:6379 2"},
		{"redis://h?failover=2", WithFailover(2), "h:6379 2"},
		{"redis://h?failover=2", WithFailover(1), ""},
		{"redis://h?failover=1", WithFailover(0), ""},
		{"redis://h", WithFailover(0), ""},
		{"redis://h", WithFailover(-1), ""},
		{"redis://h", WithFailover(17), ""},
	} {
		n, err := Open(c.url, c.opt)
		if c.want == "" {
			testkit.Check(t, errors.Is(err, ErrInvalid) && n == nil, "%v: %v, want ErrInvalid", c, err)
			continue
		}
		testkit.Must(t, err)
		testkit.Equal(t, fmt.Sprint(n.Name(), " ", n.server.opts.failover), c.want, c)
	}
	pooled := testkit.Got(New(&redis.Pool{}, WithPrefix("team"), WithName("a/1")))(t)
	testkit.Equal(t, pooled.Name(), "a/1?prefix=team", "over a pool")
	testkit.Equal(t, testkit.Got(New(&redis.Pool{}, WithPrefix("team")))(t).Name(), inside.Unnamed, "over a pool that is not known yet")
}

// refusesURL wants a URL to be refused, and returns what the error says. No part of a password may be in it.
func refusesURL(t *testing.T, url string) (text string) {
	t.Helper()
	n, err := Open(url)
	if !errors.Is(err, ErrInvalid) || n != nil {
		t.Errorf("%q: %v, want ErrInvalid", url, err)
		return ""
	}
	text = err.Error()
	testkit.Check(t, strings.HasPrefix(text, "node: "), "%q: the error %q does not say whose it is", url, text)
	for _, secret := range []string{"sec", "cret", "se%", "99999", "x@h"} {
		testkit.Check(t, !strings.Contains(text, secret), "%q: the error reveals %q of the password: %s", url, secret, text)
	}
	return text
}

func TestBadURLs(t *testing.T) {
	for _, url := range []string{
		"redis:h", "redis:", "redis://", "redis:///0", "redis://:6379", "redis://h:0", "redis://h:65536",
		"redis://h/x", "redis://h/-1", "redis://h/1/2", "redis://h/99999999999999999999",
		"redis://h?db=x", "redis://h?db=1&db=2", "redis://h/1?db=2", "redis://h/1?name=a&db=2",
		"redis://h?name=", "redis://h?name", "redis://h?name=a&name=b", "redis://h?name=a&name=a", "redis://h?Name=a",
		"redis://h?name=a;db=1", "redis://h?name=%zz", "redis://h#fragment",
		"unix://", "unix:///", "unix://relative/path",

		// With a password, also where a missing percent-encoding gives the URL another meaning.
		"redis://secret@h", // a user name, which may be meant as a password
		"redis://app:@h", "redis://app:secret@", "redis://app:secret@h:port", "redis://app:secret@h:70000", "redis://app:secret@h/x",
		"redis://app:secret@h/x?db=1", "redis://app:secret@h?user=app", "redis://app:secret@h#x", "redis://app:secret@h?name=",
		"http://app:secret@h", "app:secret@h", "secret:secret@h", "secret://h", "secret", ":secret@h",
		"redis:app:secret@h", "redis:/app:secret@h", "//app:secret@h", "redis://app:secret@h:6379:6379", "redis://app:secret@[::1",
		"redis://app:secret@h\x7f", "redis://app:se%cret@h", "redis://app:se cret@h", "redis://app:se\ncret@h",
		"redis://app:se/cret@h", "redis://app:12/cret@h", "redis://app:99999/cret@h",
		"redis://app:se?cret@h", "redis://app:12?cret@h", "redis://app:12?db=cret@h", "redis://app:12?name=cret@h",
		"redis://app:se#cret@h", "redis://app:12#cret@h", "redis://app:sec@ret/cret@h", "redis://app:sec@ret:99999/x@h",
		"redis://app:sec@ret?db=cret@h", "redis://app:sec@ret#cret@h",
		"unix://app:secret@h/run/r", "unix://app:sec@ret/cret@/run/r", "unix://app:sec@/cret@/run/r", "unix:///app:secret@/run/r",
	} {
		refusesURL(t, url)
	}
}

// The most frequent mistakes are an address in place of a URL, and an unfinished port.
func TestBadURLsAreExplained(t *testing.T) {
	const scheme = "the URL's scheme is missing or unknown: it begins with redis://, rediss://, valkey://, valkeys:// or unix://, as in redis://10.0.0.1:6379"
	const noSentinel = "clusters and several hosts are not supported: give each master a URL of its own, one string for each " +
		"(for Sentinel redis+sentinel://host:26379,host:26379/master?failover=1"
	const several = "these are several URLs: give each a string of its own " +
		"(strings.Fields splits a text; zsh splits a variable if it is ${=NAME}"
	for url, says := range map[string]string{
		"":                      scheme,
		"host":                  scheme,
		"redis":                 scheme,
		"127.0.0.1:6379":        scheme,
		"127.0.0.1:6379/0":      scheme,
		"localhost:6379":        scheme,
		"redis:6379":            scheme, // redis is the host's name
		"[::1]:6379":            scheme,
		"/run/redis.sock":       scheme,
		"http://h":              scheme,
		"memcached://h":         scheme,
		"app:secret@h:6379":     scheme,
		"tcp://app:se@cret@h":   scheme,
		"redis://h:port":        "the port must be a number",
		"redis://:secret@h:six": "the port must be a number",
		`"redis://h`:            "the URL is in quotes, which do not belong to it",
		"sentinel://h":          noSentinel,
		"h1:6379,h2:6379":       noSentinel,
		"redis://h1:1,h2:1":     noSentinel,
		"redis://h1 redis://h2": several,

		"redis://h1?name=a redis://h2?name=b":         several, // else "a redis://h2?name=b" is one master's name
		"redis://h1?name=a,redis://h2?name=b":         several,
		"redis://:p@h1?name=a\nrediss://:p@h2?name=b": several,

		"redis://h?timeout=5s":   `not one "timeout"`,
		"redis://h?failover=11s": "the URL's failover is a number of replicas, not a duration or other text, as in ?failover=1",
		"redis://h?failover=":    "the URL's failover is a number of replicas, not a duration or other text, as in ?failover=1",
		"redis://h?failover=0":   "the number of replicas that a failover may promote is not between 1 and 16",
		"redis://h?failover=-1":  "the number of replicas that a failover may promote is not between 1 and 16",
		"redis://h?failover=17":  "the number of replicas that a failover may promote is not between 1 and 16",

		"redis://h?failover=1&failover=1": `not one "failover"`,
		"redis://h?prefix=a&prefix=b":     `not one "prefix"`,

		"redis://h?server-name=a": `not one "server-name"`,
		"rediss://h?server-name=": `not one "server-name"`,
		"rediss://h?timeout=5s":   `not one "timeout"`,
	} {
		text := refusesURL(t, url)
		testkit.Check(t, strings.HasSuffix(strings.TrimSuffix(text, ")"), says), "%q: %s, want %q", url, text, says)
	}
}

// FuzzURL tries valid and invalid URLs. A refused one is ErrInvalid. Neither an error nor a node's
// name reveals a part of the password, which contains the mark, even if a missing
// percent-encoding moves it to another part of the URL.
func FuzzURL(f *testing.F) {
	const mark = "Zq9xK7"
	for _, seed := range [][5]string{
		{"redis", "user", "", "", "host"}, {"rediss", "", "pass", "word", "host:6379/1"}, {"unix", "user", "", "", "/run/redis.sock?db=3"},
		{"valkeys", "u", "12/", "", "host"}, {"redis", "u", "12?", "", "host"}, {"redis", "u", "12?db=", "", "host"},
		{"redis", "u", "12?name=", "", "host"}, {"redis", "u", "", "", "host?name=a"},
		{"redis", "u", "12#", "", "host"}, {"redis", "u", "a@", "", "host"},
		{"redis", "u", "a@", "/", "host"}, {"redis", "u", "%", "", "host"}, {"redis", "u", "[", "]", "host"}, {"http", "", "", "", ""}, {"", "", "", "", ""},
		{"redis", "u", " ", "\n", "host"}, {"redis", "u", "", "", "host:70000"}, {"unix", "u", "a/", "", "/run/s"}, {"unix", "u", "a@", "/", "run/s"},
		{"redis+sentinel", "u", "a,", ",b", "h,i:1/m?failover=1"}, {"rediss+sentinel", "", "a/", "", "h/m?failover=1"},
		{"redis+sentinel", "u", "1:", "", "h,[::1]:1/m?failover=1&sentinel-password=x&y"}, {"redis+sentinel", "u", "a", "", "h?failover=1"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, scheme, user, head, tail, rest string) {
		password := head + mark + tail
		wellWritten := (&url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: "h:1"}).String()
		e, err := parseURL(wellWritten, new(options))
		testkit.Check(t, err == nil && e.username == user && e.password == password && e.address == "h:1",
			"%q is %+v (%v)", wellWritten, e, err)
		if n, err := Open(scheme + head + tail + rest); err == nil {
			n.Close()
		} else if !errors.Is(err, ErrInvalid) || n != nil {
			t.Errorf("%q: %v, want ErrInvalid", scheme+head+tail+rest, err)
		}
		for _, raw := range []string{scheme + "://" + user + ":" + password + "@" + rest, scheme + ":" + user + ":" + password + "@" + rest,
			user + ":" + password + "@" + rest} {
			n, err := Open(raw)
			if err == nil {
				testkit.Check(t, !strings.Contains(n.Name(), mark),
					"%q: the node's name %q reveals the password", raw, n.Name())
				testkit.Must(t, n.Close())
				continue
			}
			testkit.Check(t, errors.Is(err, ErrInvalid) && n == nil, "%q: %v, want ErrInvalid", raw, err)
			digits := head[:len(head)-len(strings.TrimLeft(head, "0123456789"))]
			repeats := len(digits) > 2 && !strings.Contains("65535 6379", digits) && !strings.Contains(scheme+user+rest, digits) &&
				strings.Contains(err.Error(), digits)
			testkit.Check(t, (!strings.Contains(err.Error(), mark) || strings.Contains(scheme+user+rest, mark)) && !repeats,
				"%q: %v", raw, err)
		}
	})
}
