package node

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

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
