//go:build unix

package locks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/run"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append(Commands, masters.Check, masters.Admit, run.Command)})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, time.Minute)
	flags := d.Flags(t)
	p := d.Start(t, "a,b", "--", "sh", "-c", "echo owner=$QUORUMLOCK_OWNER token=$QUORUMLOCK_TOKEN ready; exec sleep 600")
	printed := p.Out.String()
	_, owner, _ := strings.Cut(strings.Fields(printed)[0], "=")
	_, token, _ := strings.Cut(strings.Fields(printed)[1], "=")

	held := awaitIdentity(t, flags, "a")
	host, _ := os.Hostname()
	clitest.Contains(t, held, fmt.Sprintf(`"a" is held by sh on %s (%s, pid %d), for `, host, filepath.Base(os.Args[0]), p.Process.Pid),
		"s at most unless renewed, taken at least ", " ago, depth 1, token at most "+token+",", `owner "`+owner+`"`, d.Masters[0].Addr(), d.Masters[2].Addr())
	clitest.Ask(t, cli.ExitOK, "status", flags, "a", "b")
	both, _ := clitest.Ask(t, cli.ExitFailed, "status", flags, "a", "c")
	clitest.Contains(t, both, `"a" is held`, `"c" is free`)
	quiet, errs := clitest.Ask(t, cli.ExitFailed, "status", flags, "-q", "c")
	testkit.Check(t, quiet+errs == "", "-q printed %q, %q", quiet, errs)
	var locks []lockJSON
	text, _ := clitest.Ask(t, cli.ExitOK, "status", flags, "-json", "b")
	testkit.Must(t, json.Unmarshal([]byte(text), &locks))
	l := locks[0]
	want := (scripts.Identity{Host: host, PID: p.Process.Pid, Program: filepath.Base(os.Args[0]), Label: "sh"})
	testkit.Check(t, l.Holder == want && time.Since(l.Since) <= time.Minute && time.Since(l.Since) >= 0 &&
		strings.Contains(text, `"holder": {`), "json: held by %+v since %v", l.Holder, l.Since)
	testkit.Check(t, l.Name == "b" && l.State == lockstate.Held && l.Owner == owner && l.TTL > 0 && l.TTL <= 60_000 &&
		len(l.Masters) == 3, "json: %+v", l)

	p.Send(t, syscall.SIGSTOP) // or a renewal repairs what the test deletes
	defer p.Send(t, syscall.SIGCONT)
	testkit.Do(t, d.Masters[0], "DEL", "a")
	clitest.Ask(t, cli.ExitOK, "status", flags, "a")
	clitest.Ask(t, cli.ExitFailed, "status", flags, "-all", "a")
	// The master that is gone may make the difference, and so may one that has forgotten.
	testkit.Must(t, d.Masters[1].Kill())
	unknown, _ := clitest.Ask(t, cli.ExitUnavailable, "status", flags, "a")
	clitest.Contains(t, unknown, `"a": unknown`, d.Masters[1].Addr()+"  NO VOTE: ")
	clitest.Ask(t, cli.ExitFailed, "status", flags, "c")
	clitest.Ask(t, cli.ExitUnavailable, "status", flags, "c", "a")
	testkit.Must(t, d.Masters[2].Kill())
	quiet, errs = clitest.Ask(t, cli.ExitUnavailable, "status", flags, "-q", "c")
	testkit.Check(t, quiet+errs == "", "-q printed %q, %q", quiet, errs)
}

// A holder of another library counts no tokens, and no line is too long to read.
func TestStatusOfAnotherLibrarysHolder(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, time.Minute)
	name := "夜間報告-" + strings.Repeat("x", 40)
	for _, m := range d.Masters {
		testkit.Do(t, m, "HSET", name, "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1")
		testkit.Do(t, m, "PEXPIRE", name, "60000")
	}
	held, _ := clitest.Ask(t, cli.ExitOK, "status", d.Flags(t), name)
	clitest.Contains(t, held, "\""+name+"\" is held for ", "unless renewed, depth 1, owner \"8743c9c0")
	testkit.Check(t, !strings.Contains(held, "token at most"), "a token: %s", held)
	for _, m := range d.Masters[:2] {
		testkit.Do(t, m, "CONFIG", "SET", "requirepass", "another")
	}
	unknown, _ := clitest.Ask(t, cli.ExitCredentials, "status", d.Flags(t), name)
	free, _ := clitest.Ask(t, cli.ExitUnavailable, "status", (&clitest.Deployment{Fleet: testkit.Real(t, 3), MaxLease: time.Minute}).Flags(t), "free")
	for line := range strings.Lines(held + unknown + free) {
		testkit.Check(t, columns(line) <= widest+1, "%d columns: %s", columns(line), line)
	}
}

// awaitIdentity returns what status says once it knows which process holds the lock: a process that has
// just taken its first lock may not have told the masters yet.
func awaitIdentity(t *testing.T, flags []string, name string) (held string) {
	t.Helper()
	clitest.Eventually(t, "the identity of the holder of "+name, func() bool {
		held, _ = clitest.Ask(t, cli.ExitOK, "status", flags, name)
		return strings.Contains(held, "pid ")
	})
	return held
}

// Masters that may have forgotten a lock do not say that it is free, and status does not mark them.
func TestStatusOfNewMasters(t *testing.T) {
	t.Parallel()
	d := &clitest.Deployment{Fleet: testkit.Real(t, 3), MaxLease: 30 * time.Second}
	printed, _ := clitest.Ask(t, cli.ExitUnavailable, "status", d.Flags(t), "a")
	clitest.Contains(t, printed, `"a": unknown`, "in quarantine for 30.0s from its first client on")
	for _, m := range d.Masters {
		testkit.Equal(t, testkit.Do(t, m, "DBSIZE"), any(int64(0)), "keys that status wrote")
	}
}

// The quarantine of new masters counts from their first client on, in all that is printed of it.
func TestCheckAfterTheFirstClient(t *testing.T) {
	t.Parallel()
	d := &clitest.Deployment{Fleet: testkit.Real(t, 3), MaxLease: time.Hour}
	line := func(name string, args ...string) []string {
		return append(append([]string{name, "-max-lease", "1h"}, args...), d.URLs()...)
	}
	d.Run(t, cli.ExitUnavailable, "-n", "x", "--", "true")
	stdout, _ := clitest.Command(t, cli.ExitOK, line("check")...)
	clitest.Contains(t, stdout, "has begun to mark", "in quarantine for another 59m")
	testkit.Check(t, !strings.Contains(stdout, "no client has used this server"), "a client has: %s", stdout)
	stdout, _ = clitest.Ask(t, cli.ExitUnavailable, "status", d.Flags(t), "x")
	clitest.Contains(t, stdout, "in quarantine for another ")
	stdout, _ = clitest.Command(t, cli.ExitOK, line("admit", "-yes")...)
	clitest.Contains(t, stdout, "quarantine ended, ")
}

// A part of the masters of another list is not ok, though it grants to others: it does not say who holds a lock, or that
// the lock is gone.
func TestAnotherList(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	d.Start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	flags := (&clitest.Deployment{Fleet: &redistest.Fleet{Masters: d.Masters[:1]}, MaxLease: d.MaxLease}).Flags(t)
	printed, _ := clitest.Ask(t, cli.ExitConfiguration, "status", flags, "b")
	clitest.Contains(t, printed, "this master accepts clients with {")
	printed, _ = clitest.Ask(t, cli.ExitOK, "top", flags)
	clitest.Contains(t, printed, "\n!  masters not ok: 1 of 1; locks held: 0; unknown: 1;", " REFUSED ", ": check: the lists of masters differ")
	printed, _ = clitest.Ask(t, cli.ExitFailed, "unlock", flags, "-yes", "a")
	clitest.Contains(t, printed, "NOT UNLOCKED", "this master accepts clients with {")
	testkit.Check(t, !strings.Contains(printed, "unlocked:") && testkit.Do(t, d.Masters[0], "EXISTS", "a") == int64(1),
		"it unlocked on one master: %s", printed)
}

// What is wrong with a command line is said in one line, without what may be a password.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says string
		code int
		args []string
	}{
		{"status: the name of a lock is missing", cli.ExitLockUsage, []string{"status"}},
		{"a name is empty", cli.ExitLockUsage, []string{"status", ""}},
		{"begins with quorumlock:", cli.ExitLockUsage, []string{"status", "quorumlock:x"}},
		{"URLs do not belong on the command line", cli.ExitLockUsage, []string{"status", "redis://:" + clitest.Secret + "@h"}},
		{"flags come before the names", cli.ExitLockUsage, []string{"status", "a", "-json"}},
		{"-json and -q exclude each other", cli.ExitLockUsage, []string{"status", "-json", "-q", "a"}},
		{"-watch cannot be used with -json or -q", cli.ExitLockUsage, []string{"status", "-watch", "-json", "a"}},
		{"-timeout needs a duration", cli.ExitLockUsage, []string{"status", "-timeout", clitest.Secret, "a"}},
		{"no such file", cli.ExitConfiguration, []string{"status", "-urls-file", "/none/here", "a"}},
		{"no masters in /dev/null", cli.ExitConfiguration, []string{"status", "-urls-file", "/dev/null", "a"}},
		{"status: -slots needs a number from 1 to 1024", cli.ExitLockUsage, []string{"status", "-slots", "1025", "a"}},
		{"run: -slots needs a number from 1 to 1024", cli.ExitLockUsage, []string{"run", "-slots", "0", "a", "--", "true"}},
		{"run: -slots takes one name", cli.ExitLockUsage, []string{"run", "-slots", "2", "a,b", "--", "true"}},
		{"unlock: -slot needs a number from 0 to 1023", cli.ExitLockUsage, []string{"unlock", "-slot", "-1", "a"}},
		{"unlock: the name of a lock is missing", cli.ExitLockUsage, []string{"unlock", "-yes"}},
		{`unlock: unknown flag: "-json"`, cli.ExitLockUsage, []string{"unlock", "-json", "a"}},
		{"top takes no arguments: the URLs come from QUORUMLOCK_URLS or -urls-file", cli.ExitLockUsage, []string{"top", "x"}},
		{"top: -every needs a duration", cli.ExitLockUsage, []string{"top", "-every", clitest.Secret}},
		{`top: unknown flag: "-q"`, cli.ExitLockUsage, []string{"top", "-q"}},
	} {
		stdout, stderr := clitest.Command(t, test.code, test.args...)
		says := []string{"quorumlock: status: ", test.says}
		if strings.HasPrefix(test.says, test.args[0]) {
			says = []string{"quorumlock: " + test.says}
		}
		clitest.Contains(t, stderr, says...)
		testkit.Check(t, stdout == "" && !strings.Contains(stderr, clitest.Secret) && strings.Count(stderr, "\n") == 1,
			"%q: stdout %q, stderr %q", test.args, stdout, stderr)
	}
}

// status says why masters do not tell, and exits as run does for the same reason.
func TestStatusSaysWhyItDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags := d.Flags(t)
	for _, m := range d.Masters {
		testkit.Do(t, m, "SET", "text", "of an application")
	}
	printed, _ := clitest.Ask(t, cli.ExitConfiguration, "status", flags, "text")
	clitest.Contains(t, printed, `"text": unknown, 3 of 3 masters refused`, "WRONGTYPE")
	for _, m := range d.Masters {
		testkit.Do(t, m, "CONFIG", "SET", "requirepass", "another")
	}
	printed, _ = clitest.Ask(t, cli.ExitCredentials, "status", flags, "a")
	clitest.Contains(t, printed, `"a": unknown, 3 of 3 masters refused`, "NOAUTH")
	n := strings.Count(printed, "NOAUTH")
	testkit.Check(t, n == 1, "what all masters say stands there %d times:\n%s", n, printed)
	for _, m := range d.Masters[:2] {
		testkit.Must(t, m.Kill())
	}
	printed, _ = clitest.Ask(t, cli.ExitUnavailable, "status", flags, "a")
	clitest.Contains(t, printed, `"a": unknown, 2 of 3 masters did not answer, 1 refused`)
}

// A master that lacks its replica still says who holds. A replica has answered, too.
func TestStatusWhereAMasterFailsOver(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 2)
	master, replica := fleet.Masters[0], fleet.Masters[1]
	follow := func() {
		host, port, _ := strings.Cut(master.Addr(), ":")
		testkit.Do(t, replica, "REPLICAOF", host, port)
		testkit.Eventually(t, "the replica is attached", func() bool {
			return testkit.Info(t, replica, "replication", "master_link_status") == "up"
		})
	}
	status := func(m *redistest.Master, code int) string {
		file := filepath.Join(t.TempDir(), "urls")
		testkit.Must(t, os.WriteFile(file, []byte(m.URL()+"?failover=1"), 0o600))
		printed, _ := clitest.Ask(t, code, "status", []string{"-timeout", "2s", "-urls-file", file}, "a")
		return printed
	}
	testkit.Do(t, master, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
	follow()
	l, err := redlock.Open([]string{master.URL() + "?failover=1"}, quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(2*time.Second)))
	testkit.Must(t, err)
	defer l.Close()
	_, err = l.Lock(t.Context(), "a")
	testkit.Must(t, err)
	testkit.Do(t, replica, "REPLICAOF", "NO", "ONE")
	testkit.Eventually(t, "the replica has left", func() bool { return testkit.Info(t, master, "replication", "connected_slaves") == "0" })
	clitest.Contains(t, status(master, cli.ExitOK), `"a" is held by `, "not replicated", "until the replicas are back, or a failover is over: 0 of 1")
	follow()
	clitest.Contains(t, status(replica, cli.ExitUnavailable), `"a": unknown, 1 of 1 masters refused`)
}
