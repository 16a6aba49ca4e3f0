//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// flagsOf returns the flags that lead to the masters.
func (d *deployment) flagsOf(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "urls")
	testkit.Must(t, os.WriteFile(file, []byte(strings.Join(d.URLs(), "\n")), 0o600))
	return []string{"-timeout", "2s", "-max-lease", d.maxLease.String(), "-urls-file", file}
}

// ask runs a command with the masters' flags.
func ask(t *testing.T, wantCode int, name string, flags []string, args ...string) (stdout, stderr string) {
	t.Helper()
	return command(t, wantCode, append(append([]string{name}, flags...), args...)...)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, time.Minute)
	flags := d.flagsOf(t)
	p := d.start(t, "a,b", "--", "sh", "-c", "echo owner=$QUORUMLOCK_OWNER token=$QUORUMLOCK_TOKEN ready; exec sleep 600")
	printed := p.out.String()
	_, owner, _ := strings.Cut(strings.Fields(printed)[0], "=")
	_, token, _ := strings.Cut(strings.Fields(printed)[1], "=")

	held := d.awaitIdentity(t, flags, "a")
	host, _ := os.Hostname()
	contains(t, held, fmt.Sprintf(`"a" is held by sh on %s (pid %d), for `, host, p.Process.Pid),
		"s at most unless renewed, taken at least ", " ago, level 1, token at most "+token+`, owner "`+owner+`"`, d.Masters[0].Addr(), d.Masters[2].Addr())
	ask(t, exitOK, "status", flags, "a", "b")
	both, _ := ask(t, exitFailed, "status", flags, "a", "c")
	contains(t, both, `"a" is held`, `"c" is free`)
	if quiet, errs := ask(t, exitFailed, "status", flags, "-q", "c"); quiet+errs != "" {
		t.Errorf("-q printed %q, %q", quiet, errs)
	}
	var locks []lockJSON
	text, _ := ask(t, exitOK, "status", flags, "-json", "b")
	if err := json.Unmarshal([]byte(text), &locks); err != nil {
		t.Fatal(err, text)
	}
	l := locks[0]
	if h := l.Holder; h == nil || *h != (holderJSON{host, p.Process.Pid, filepath.Base(os.Args[0]), "sh"}) ||
		l.Since == nil || time.Since(*l.Since) > time.Minute || time.Since(*l.Since) < 0 {
		t.Errorf("json: held by %+v since %v", h, l.Since)
	}
	if l.Name != "b" || l.State != lockstate.Held || l.Owner != owner || l.TTL <= 0 || l.TTL > 60_000 || len(l.Masters) != 3 {
		t.Errorf("json: %+v", l)
	}

	p.send(t, syscall.SIGSTOP) // or a renewal repairs what the test deletes
	defer p.send(t, syscall.SIGCONT)
	testkit.Do(t, d.Masters[0], "DEL", "a")
	ask(t, exitOK, "status", flags, "a")
	ask(t, exitFailed, "status", flags, "-all", "a")
	// The master that is gone may make the difference, and so may one that has forgotten.
	testkit.Must(t, d.Masters[1].Kill())
	unknown, _ := ask(t, exitUnavailable, "status", flags, "a")
	contains(t, unknown, `"a": unknown`, d.Masters[1].Addr()+"  NO VOTE: ")
	ask(t, exitFailed, "status", flags, "c")
	ask(t, exitUnavailable, "status", flags, "c", "a")
	testkit.Must(t, d.Masters[2].Kill())
	if quiet, errs := ask(t, exitUnavailable, "status", flags, "-q", "c"); quiet+errs != "" {
		t.Errorf("-q printed %q, %q", quiet, errs)
	}
}

// awaitIdentity returns what status says once it knows which process holds the lock: a process that has
// just taken its first lock may not have told the masters yet.
func (d *deployment) awaitIdentity(t *testing.T, flags []string, name string) (held string) {
	t.Helper()
	eventually(t, "the identity of the holder of "+name, func() bool {
		held, _ = ask(t, exitOK, "status", flags, name)
		return strings.Contains(held, "(pid ")
	})
	return held
}

// Masters that may have forgotten a lock do not say that it is free, and status does not mark them.
func TestStatusOfNewMasters(t *testing.T) {
	t.Parallel()
	d := &deployment{testkit.Real(t, 3), 30 * time.Second}
	printed, _ := ask(t, exitUnavailable, "status", d.flagsOf(t), "a")
	contains(t, printed, `"a": unknown`, "in quarantine for 30.0s from its first client on")
	for _, m := range d.Masters {
		if keys := testkit.Do(t, m, "DBSIZE"); keys != int64(0) {
			t.Errorf("status wrote %v keys", keys)
		}
	}
}

// The quarantine of new masters counts from their first client on, in all that is printed of it.
func TestCheckAfterTheFirstClient(t *testing.T) {
	t.Parallel()
	d := &deployment{testkit.Real(t, 3), time.Hour}
	line := func(name string, args ...string) []string {
		return append(append([]string{name, "-max-lease", "1h"}, args...), d.URLs()...)
	}
	d.run(t, exitUnavailable, "-n", "x", "--", "true")
	stdout, _ := command(t, exitOK, line("check")...)
	contains(t, stdout, "has begun to mark", "in quarantine for another 59m")
	if strings.Contains(stdout, "no client has used this server") {
		t.Errorf("a client has: %s", stdout)
	}
	stdout, _ = ask(t, exitUnavailable, "status", d.flagsOf(t), "x")
	contains(t, stdout, "in quarantine for another ")
	stdout, _ = command(t, exitOK, line("admit", "-yes")...)
	contains(t, stdout, "quarantine ended, ")
}

// Masters of other clients do not say that a lock of these is free.
func TestStatusOfAnotherList(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	other := &deployment{&redistest.Fleet{Masters: d.Masters[:1]}, d.maxLease}
	printed, _ := ask(t, exitConfiguration, "status", other.flagsOf(t), "a")
	contains(t, printed, "it accepts clients with {")
}

func TestUsageOfStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says string
		code int
		args []string
	}{
		{"the name of a lock is missing", exitRunUsage, nil},
		{"a name is empty", exitRunUsage, []string{""}},
		{"begins with quorumlock:", exitRunUsage, []string{"quorumlock:x"}},
		{"URLs do not belong on the command line", exitRunUsage, []string{"redis://:" + secret + "@h"}},
		{"flags come before the names", exitRunUsage, []string{"a", "-json"}},
		{"-json and -q exclude each other", exitRunUsage, []string{"-json", "-q", "a"}},
		{"-watch cannot be used with -json or -q", exitRunUsage, []string{"-watch", "-json", "a"}},
		{"-timeout needs a duration", exitRunUsage, []string{"-timeout", secret, "a"}},
		{"no such file", exitConfiguration, []string{"-urls-file", "/none/here", "a"}},
		{"no masters in /dev/null", exitConfiguration, []string{"-urls-file", "/dev/null", "a"}},
	} {
		stdout, stderr := command(t, test.code, append([]string{"status"}, test.args...)...)
		contains(t, stderr, "quorumlock: status: ", test.says)
		if stdout != "" || strings.Contains(stderr, secret) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: stdout %q, stderr %q", test.args, stdout, stderr)
		}
	}
	contains(t, func() string { help, _ := command(t, exitOK, "status", "-h"); return help }(), "quorumlock status")
}

// status says why masters do not tell, and exits as run does for the same reason.
func TestStatusSaysWhyItDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	flags := d.flagsOf(t)
	for _, m := range d.Masters {
		testkit.Do(t, m, "SET", "text", "of an application")
	}
	printed, _ := ask(t, exitConfiguration, "status", flags, "text")
	contains(t, printed, `"text": unknown, 3 of 3 masters refused`, "WRONGTYPE")
	for _, m := range d.Masters {
		testkit.Do(t, m, "CONFIG", "SET", "requirepass", "another")
	}
	printed, _ = ask(t, exitCredentials, "status", flags, "a")
	contains(t, printed, `"a": unknown, 3 of 3 masters refused`, "NOAUTH")
	if n := strings.Count(printed, "NOAUTH"); n != 1 {
		t.Errorf("what all masters say stands there %d times:\n%s", n, printed)
	}
	for _, m := range d.Masters[:2] {
		testkit.Must(t, m.Kill())
	}
	printed, _ = ask(t, exitUnavailable, "status", flags, "a")
	contains(t, printed, `"a": unknown, 2 of 3 masters did not answer, 1 refused`)
}
