package integration_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// secured is a fleet of masters that serve TLS, and ask their clients for certificates.
type secured struct {
	*redistest.Fleet
	dirs []string // of each master's files
	urls addresses
}

// secure starts n masters with certificates by that authority, or skips the test.
func secure(t *testing.T, n int, by *redistest.Authority) *secured {
	t.Helper()
	s := &secured{Fleet: &redistest.Fleet{}}
	for range n {
		m, dir, port := testkit.TLSBy(t, by, "127.0.0.1")
		s.Masters, s.dirs = append(s.Masters, m), append(s.dirs, dir)
		s.urls = append(s.urls, "rediss://127.0.0.1:"+port)
	}
	return s
}

// reload has one master read its files again, and ends its connections.
func (s *secured) reload(t *testing.T, i int) {
	t.Helper()
	do(t, s.Masters[i], "CONFIG", "SET", "tls-cert-file", filepath.Join(s.dirs[i], "cert.pem"))
	do(t, s.Masters[i], "CLIENT", "KILL", "TYPE", "normal")
}

// Certificates of masters and clients move to another authority, one master after another, while a
// lock is held and others come and go. The program is not restarted.
func TestCertificatesThatRotate(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	old := testkit.Got(redistest.NewAuthority())(t)
	next := testkit.Got(redistest.NewAuthority())(t)
	s := secure(t, 3, old)
	mine := t.TempDir()
	must(t, old.Issue(mine, "client"))

	reads := node.WithTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    redistest.Roots(old, next),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(filepath.Join(mine, "cert.pem"), filepath.Join(mine, "key.pem"))
			return &pair, err
		},
	})
	first := keeps(t, mine, old)
	l := open(t, s.urls, redlock.Open, quorum.WithLease(lease), quorum.WithNodeOptions(reads))
	held := lock(t, l, "held")
	unlock(t, lock(t, open(t, s.urls, redlock.Open, first), "bridge"))

	// All trust both authorities; then the certificates change; then all trust the new one only.
	for step, change := range []func(dir string) error{
		func(dir string) error { return redistest.WriteRoots(dir, old, next) },
		func(dir string) error { return next.Issue(dir, "127.0.0.1") },
		func(dir string) error { return redistest.WriteRoots(dir, next) },
	} {
		if step == 2 {
			must(t, next.Issue(mine, "client"))
		}
		for i, dir := range s.dirs {
			must(t, change(dir))
			s.reload(t, i)
			unlock(t, lock(t, l, fmt.Sprintf("step %d, master %d", step, i)))
		}
		time.Sleep(lease) // renewed over the new connections
		testkit.Require(t, held.Valid(), "step %d: the lock is lost: %v", step, held.Err())
	}
	grantedByAll(t, s.Masters, "held")
	unlock(t, held)
	// What has not changed is refused: the masters use the new certificates, and ask for them.
	_, err := open(t, s.urls, redlock.Open, first).TryLock(t.Context(), "bridge")
	want(t, err, quorum.ErrUnavailable, "certificate")
}

// keeps shows the certificate that is in the directory now, and trusts that authority.
func keeps(t *testing.T, dir string, by *redistest.Authority) quorum.Option {
	t.Helper()
	pair := testkit.Got(tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))(t)
	return quorum.WithNodeOptions(node.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: redistest.Roots(by),
		Certificates: []tls.Certificate{pair}}))
}

// Clients move to TLS by the URLs of docs/operations.md while others hold locks: the masters' names stay, so the list does.
func TestFromPlainToTLS(t *testing.T) {
	t.Parallel()
	moved := regexp.MustCompile(`(?m)^    rediss://a:6380(.*)a:6379 `).FindStringSubmatch(testkit.Read(t, "../docs/operations.md"))
	testkit.Require(t, moved != nil, "the page has no URL with TLS")
	authority := testkit.Got(redistest.NewAuthority())(t)
	s, mine := secure(t, 3, authority), t.TempDir()
	must(t, authority.Issue(mine, "client"))
	files := keeps(t, mine, authority)
	held := lock(t, open(t, s.Fleet, redlock.Open), "name")
	var urls addresses
	for i, m := range s.Masters {
		urls = append(urls, s.urls[i]+moved[1]+m.Addr())
	}
	l := open(t, urls, redlock.Open, files)
	want(t, testkit.ErrorOf(l.TryLock(t.Context(), "name")), quorum.ErrHeld)
	unlock(t, held)
	unlock(t, lock(t, l, "name"))
	_, err := open(t, s.urls, redlock.Open, files).TryLock(t.Context(), "name") // without the names
	want(t, err, quorum.ErrMembership)
}

// rotation returns the two steps of operations.md: with an aclfile, and otherwise.
func rotation(t *testing.T, aclfile bool) (steps [][]string) {
	t.Helper()
	_, section, _ := strings.Cut(testkit.Read(t, "../docs/operations.md"), "\n## Passwords that rotate\n")
	section, _, _ = strings.Cut(section, "\n## ")
	instead := regexp.MustCompile("Where redis.conf has the users, say `(.*)` in place of `(.*)`").FindStringSubmatch(section)
	testkit.Require(t, instead != nil, "the page does not say what to do where redis.conf has the users")
	for block := range strings.SplitSeq(section, "\n\n") {
		var step []string
		for line := range strings.Lines(block) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "ACL ") {
				if line == instead[2] && !aclfile {
					line = instead[1]
				}
				step = append(step, line)
			}
		}
		if len(step) > 0 {
			steps = append(steps, step)
		}
	}
	testkit.Require(t, len(steps) == 2 && len(steps[0]) == 2 && len(steps[1]) == 2, "the page has the steps %q", steps)
	return steps
}

// The page's lines rotate a password so that restarts keep it, wherever the masters have their users.
func TestPasswordsThatRotate(t *testing.T) {
	t.Parallel()
	redistest.Need(t, redistest.ACLChannels) // the recipe's users
	for where, aclfile := range map[string]bool{"aclfile": true, "redis.conf": false} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			users := strings.Join(append([]string{"user", "app", "on"}, recipeRules(t, "old")...), " ") + " ~*\n"
			f := &redistest.Fleet{}
			for range 3 {
				path := filepath.Join(t.TempDir(), where)
				must(t, os.WriteFile(path, []byte(users), 0o600))
				args := []string{path}
				if aclfile {
					args = []string{"--aclfile", path}
				}
				f.Masters = append(f.Masters, testkit.Real(t, 1, args...).Masters...)
			}
			with := func(password string) (urls addresses) {
				for _, m := range f.Masters {
					urls = append(urls, fmt.Sprintf("redis://app:%s@%s", password, m.Addr()))
				}
				return urls
			}
			works := func(password string) {
				t.Helper()
				unlock(t, lock(t, open(t, with(password), redlock.Open), "name"))
			}
			works("old")
			for i, step := range rotation(t, aclfile) {
				for _, m := range f.Masters {
					for _, line := range step {
						var args []any
						for word := range strings.FieldsSeq(line) {
							args = append(args, word)
						}
						do(t, m, args...)
					}
					must(t, m.Kill())
					must(t, m.Start())
				}
				works("new")
				if i == 0 {
					works("old") // clients move one after another
				}
			}
			_, err := open(t, with("old"), redlock.Open).Lock(short(t), "name")
			testkit.Check(t, err != nil && strings.Contains(err.Error(), "WRONGPASS"), "the old password: %v", err)
		})
	}
}
