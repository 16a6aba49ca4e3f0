package masters_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/members"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/run"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append(locks.Commands, masters.Check, masters.Admit, members.Command, run.Command)})
}

func TestCheckAndAdmit(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := fleet.URLs()
	addr := fleet.Masters[0].Addr()

	printed, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check"}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, addr), "BLANK master", "none no bound not begun")
	clitest.Contains(t, printed, "no client has used this server", "3 of 3 masters are fit for locks, 3 of these blank.\n", "\nNothing new can be locked")
	for _, m := range fleet.Masters {
		testkit.Equal(t, testkit.Do(t, m, "DBSIZE"), any(int64(0)), "keys that check wrote")
	}

	printed, _ = clitest.Command(t, cli.ExitOK, append([]string{"admit", "-yes", "-max-lease", "20s"}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, addr), "admitted its quarantine had not begun; max lease 20s")
	printed, _ = clitest.Command(t, cli.ExitOK, append([]string{"check", "-max-lease", "20s"}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, addr), "ok master", "none no bound none")
	clitest.Contains(t, printed, "3 of 3 masters are fit for locks.\n")
	printed, _ = clitest.Command(t, cli.ExitOK, append([]string{"admit", "-yes", "-max-lease", "20s"}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, addr), "admitted was not in quarantine")
}

// Where nothing can be locked, and no quarantine is counted down, nobody must wait: check fails, and says what to do. So do
// top and status.
func TestNothingCanBeLocked(t *testing.T) {
	t.Parallel()
	const never = "othing new can be locked, and waiting alone does not change that: "
	config := func(words ...any) func(*testing.T, *clitest.Deployment) {
		return func(t *testing.T, d *clitest.Deployment) {
			for _, m := range d.Masters[:2] {
				testkit.Do(t, m, slices.Concat([]any{"CONFIG", "SET"}, words)...)
			}
		}
	}
	full := config("maxmemory", "1")
	for name, test := range map[string]struct {
		meanwhile      func(*testing.T, *clitest.Deployment)
		isNew, claimed bool
		says, state    string
		outlook        string // never, if it is empty
	}{
		"without a disk after a power failure": {says: "from a client without WithoutFounding (quorumlock run without -existing)",
			state: "BLANK", meanwhile: func(t *testing.T, d *clitest.Deployment) {
				for _, m := range d.Masters {
					testkit.Must(t, errors.Join(m.Kill(), m.Start()))
				}
			}},
		"new, too few replicas": {isNew: true, meanwhile: config("min-replicas-to-write", "1"), says: "NOREPLICAS", state: "REFUSED"},
		"full":                  {meanwhile: full, says: "OOM", state: "REFUSED"},
		"claimed, full":         {isNew: true, claimed: true, meanwhile: full, says: "OOM", state: "REFUSED"},
		"no rights": {meanwhile: func(t *testing.T, d *clitest.Deployment) {
			for _, m := range d.Masters[:2] {
				testkit.Do(t, m, redistest.SetUser("default", "-set")...)
			}
		}, says: "NOPERM", state: "REFUSED"},
		"one in quarantine, one full": {says: "OOM", state: "REFUSED", outlook: "othing new is locked for another ", meanwhile: func(t *testing.T, d *clitest.Deployment) {
			testkit.Must(t, errors.Join(d.Masters[1].Kill(), d.Masters[1].Start()))
			d.Run(t, cli.ExitOK, "a", "--", "true")
			testkit.Do(t, d.Masters[0], "CONFIG", "SET", "maxmemory", "1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d *clitest.Deployment
			if test.isNew {
				d = &clitest.Deployment{Fleet: testkit.Real(t, 3), MaxLease: 30 * time.Second}
			} else {
				d = clitest.Deploy(t, 3, 30*time.Second)
			}
			if test.claimed {
				d.Run(t, cli.ExitUnavailable, "-n", "a", "--", "true")
			}
			test.meanwhile(t, d)
			outlook := cmp.Or(test.outlook, never)
			printed, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check"}, d.URLs()...)...)
			clitest.Contains(t, clitest.LineOf(t, printed, d.Masters[0].Addr()), test.state)
			clitest.Contains(t, printed, "\nN"+outlook, test.says)
			printed, _ = clitest.Ask(t, cli.ExitOK, "top", d.Flags(t))
			clitest.Contains(t, printed, "\n!  n"+outlook, test.says, test.state)
			var out, errs clitest.Output
			clitest.Run(t.Context(), append(append([]string{"status"}, d.Flags(t)...), "free"), &out, &errs)
			clitest.Contains(t, out.String(), "\nn"+outlook, "GRANTS NOTHING: ", test.says)
		})
	}
}

// An empty master in a dead one's place holds no lock, but the dead master's leases may be alive.
func TestAdmitPrintsTheOperatorsWord(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 1)
	const belief = `no lease is alive that one of these masters granted, or a master whose place it takes in the
clients' lists. That holds once no client has held or requested a lock there for one max lease.`

	printed, explained := clitest.Command(t, cli.ExitUsage, "admit", fleet.URLs()[0])
	clitest.Contains(t, explained, "quorumlock: with admit you assert that "+belief+"\n", "two holders", "An empty spare",
		"To assert it: the same command with -yes", "wait one max lease")
	keys := testkit.Do(t, fleet.Masters[0], "DBSIZE")
	testkit.Check(t, printed == "" && keys == int64(0), "admit without -yes: printed %q, %v keys", printed, keys)
	_, explained = clitest.Command(t, cli.ExitUsage, "admit", "-members", fleet.URLs()[0])
	clitest.Contains(t, explained, "only clients with {"+fleet.Masters[0].Addr()+"}", "To assert it: the same command with -yes.\n")
	printed, _ = clitest.Command(t, cli.ExitOK, "admit", "-yes", fleet.URLs()[0])
	clitest.Contains(t, printed, "\nYou asserted that "+belief+"\n")
	printed, _ = clitest.Command(t, cli.ExitFailed, "admit", "-yes", "redis://127.0.0.1:1")
	testkit.Check(t, !strings.Contains(printed, "You asserted"), "of none admitted: %q", printed)
	help, _ := clitest.Command(t, cli.ExitOK, "admit", "-h")
	clitest.Contains(t, help, "whose place")
}

func TestCheckFindsUnfitMasters(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 6)
	evicts, replica, twin, gone, frozen, well := fleet.Masters[0], fleet.Masters[1], fleet.Masters[2], fleet.Masters[3], fleet.Masters[4], fleet.Masters[5]
	testkit.Do(t, evicts, "CONFIG", "SET", "maxmemory", "64mb")
	testkit.Do(t, evicts, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	host, port, _ := strings.Cut(well.Addr(), ":")
	testkit.Do(t, replica, "REPLICAOF", host, port)
	testkit.Must(t, gone.Kill())
	testkit.Must(t, frozen.Freeze())
	other := strings.Replace(twin.Addr(), "127.0.0.1", "localhost", 1)

	urls := append(fleet.URLs(), "redis://"+other)
	const timeout = "3s" // long for a busy machine, short for the master that is frozen
	printed, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check", "-timeout", timeout}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, evicts.Addr()), "REFUSED master", "64 MB, allkeys-lru")
	clitest.Contains(t, clitest.LineOf(t, printed, replica.Addr()), "REFUSED slave")
	clitest.Contains(t, clitest.LineOf(t, printed, twin.Addr()), "REFUSED master")
	clitest.Contains(t, clitest.LineOf(t, printed, other), "REFUSED master")
	clitest.Contains(t, clitest.LineOf(t, printed, gone.Addr()), "FAILED")
	clitest.Contains(t, clitest.LineOf(t, printed, frozen.Addr()), "FAILED")
	clitest.Contains(t, clitest.LineOf(t, printed, well.Addr()), "BLANK master")
	clitest.Contains(t, printed, "may evict locks", "is a replica", "it is the same process as", "refused", "timed out", "1 of 7 masters are fit")

	printed, _ = clitest.Command(t, cli.ExitFailed, append([]string{"admit", "-yes", "-timeout", timeout}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, evicts.Addr()), "NOT ADMITTED", "may evict locks")
	clitest.Contains(t, clitest.LineOf(t, printed, replica.Addr()), "NOT ADMITTED")
	clitest.Contains(t, clitest.LineOf(t, printed, gone.Addr()), "NOT ADMITTED")
	clitest.Contains(t, clitest.LineOf(t, printed, well.Addr()), " admitted ")
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	master := testkit.Real(t, 1).Masters[0]
	const right, wrong = "right-pw-never-shown", "wrong-pw-never-shown"
	testkit.Do(t, master, "CONFIG", "SET", "requirepass", right)
	for _, test := range []struct {
		password, says string
	}{{right, "BLANK"}, {wrong, "WRONGPASS"}} {
		url := "redis://:" + test.password + "@" + master.Addr()
		for _, args := range [][]string{{"check", url}, {"admit", "-yes", url}} {
			code, says := cli.ExitFailed, test.says
			if args[0] == "admit" && test.password == right {
				code, says = cli.ExitOK, " admitted "
			}
			printed, errs := clitest.Command(t, code, args...)
			clitest.Contains(t, printed, says)
			testkit.Check(t, !strings.Contains(printed+errs, "never-shown"),
				"a password was printed:\n%s\n%s", printed, errs)
		}
	}
	printed, _ := clitest.Command(t, cli.ExitFailed, "check", master.URL())
	clitest.Contains(t, printed, "FAILED", "NOAUTH")
}

func TestCheckCountsMasters(t *testing.T) {
	t.Parallel()
	const note = "redlock needs an odd number of masters, 3 or more to survive the loss of one\n"
	for count, noted := range map[int]bool{1: true, 2: true, 3: false, 4: true, 5: false, 6: true} {
		args := []string{"check"}
		for range count {
			args = append(args, "redis://127.0.0.1:1")
		}
		printed, _ := clitest.Command(t, cli.ExitFailed, args...)
		testkit.Check(t, strings.HasSuffix(printed, note) == noted,
			"%d masters: the note's presence should be %v:\n%s", count, noted, printed)
	}
}

// checkReport is what monitoring reads of check -json.
type checkReport struct {
	Fit, Granting int
	ReadyIn       int64 `json:"ready_in_ms"`
	Masters       []struct {
		State, Error string
		Tried        bool
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	testkit.Must(t, fleet.Masters[2].Kill())
	clitest.Command(t, cli.ExitFailed, append([]string{"admit", "-yes"}, fleet.URLs()...)...)
	printed, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check", "-json"}, fleet.URLs()...)...)
	var report checkReport
	testkit.Must(t, json.Unmarshal([]byte(printed), &report))
	testkit.Check(t, report.Fit == 2 && report.Granting == 2 && len(report.Masters) == 3 && report.Masters[0].State == "ok" &&
		report.Masters[2].State == "FAILED" && report.Masters[2].Error != "", "%+v", report)
}

func TestCheckWaits(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	testkit.Must(t, fleet.Masters[2].Kill())
	urls := fleet.URLs()
	printed, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check", "-wait", "10ms"}, urls...)...)
	clitest.Contains(t, printed, "0 of 3 masters grant, and 2 must: a majority is 2.")

	type result struct {
		code int
		out  string
	}
	done := make(chan result)
	go func() {
		var out clitest.Output
		code := clitest.Run(t.Context(), append([]string{"check", "-wait", "40s"}, urls...), &out, &clitest.Output{})
		done <- result{code, out.String()}
	}()
	clitest.Command(t, cli.ExitFailed, append([]string{"admit", "-yes"}, urls...)...)
	r := <-done
	clitest.Contains(t, r.out, "2 of 3 masters grant, and 2 must: a majority is 2.")
	testkit.Equal(t, r.code, cli.ExitOK, "exit code")
	// Masters of another list do not grant to clients with this one.
	clitest.Command(t, cli.ExitFailed, append([]string{"admit", "-yes", "-members"}, urls...)...)
	clitest.Command(t, cli.ExitOK, append([]string{"check", "-wait", "10ms"}, urls...)...)
	clitest.Command(t, cli.ExitFailed, append([]string{"check", "-wait", "10ms"}, urls[:2]...)...)
}

// startTLS starts a master that asks its clients for a certificate, and returns the directory of
// its files, its port with TLS, and that without.
func startTLS(t *testing.T) (dir, port, plain string) {
	t.Helper()
	m, dir, port, _ := testkit.TLS(t, "localhost")
	return dir, port, m.Addr()
}

// A URL with the wrong scheme gets a hint. No credentials are sent to find that out.
func TestCheckHintsAtTLS(t *testing.T) {
	t.Parallel()
	_, port, plain := startTLS(t)
	for url, hint := range map[string]string{
		"redis://localhost:" + port: "the port speaks TLS: the URL should begin with rediss://",
		"valkeys://" + plain:        "the port speaks without TLS: the URL should begin with valkey://",
	} {
		printed, _ := clitest.Command(t, cli.ExitFailed, "check", "-timeout", "10s", url)
		clitest.Contains(t, printed, "FAILED", "  - "+hint+"\n")
		printed, _ = clitest.Command(t, cli.ExitFailed, "check", "-timeout", "10s", "-json", url)
		clitest.Contains(t, printed, hint)
	}
	printed, _ := clitest.Command(t, cli.ExitFailed, "check", "redis://127.0.0.1:1")
	testkit.Check(t, !strings.Contains(printed, "TLS"), "a hint for a port where nothing listens: %s", printed)
}

// The URLs, which may hold passwords, need not be on the command line. A command that changes what
// masters grant takes none from the environment.
func TestURLsAreNotOnTheCommandLine(t *testing.T) {
	d := clitest.Deploy(t, 3, 30*time.Second)
	flags := d.Flags(t)
	for _, name := range []string{"check", "members show"} {
		words := strings.Fields(name)
		printed, _ := clitest.Command(t, cli.ExitOK, slices.Concat(words, flags)...)
		clitest.Contains(t, printed, d.Masters[0].Addr(), d.Masters[2].Addr())
		t.Setenv(masters.URLsVariable, strings.Join(d.URLs(), " "))
		printed, _ = clitest.Command(t, cli.ExitOK, words...)
		clitest.Contains(t, printed, d.Masters[0].Addr(), d.Masters[1].Addr())
		t.Setenv(masters.URLsVariable, "")
	}
	t.Setenv(masters.URLsVariable, d.Masters[0].URL())
	for _, words := range [][]string{{"admit", "-yes"}, {"members", "commit"}, {"members", "add"}, {"members", "abort"}} {
		_, errs := clitest.Command(t, cli.ExitUsage, words...)
		clitest.Contains(t, errs, "needs the URL", "does not read "+masters.URLsVariable)
	}
	printed, _ := clitest.Command(t, cli.ExitOK, slices.Concat([]string{"admit"}, flags, []string{"-yes"})...)
	clitest.Contains(t, printed, d.Masters[0].Addr(), d.Masters[2].Addr())
	_, errs := clitest.Command(t, cli.ExitUsage, "check", "-urls-file", t.TempDir()+"/none")
	clitest.Contains(t, errs, "quorumlock: check: ", "/none: no such file")
}

func TestUnusableURLs(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "redis://127.0.0.1", "127.0.0.1:6379"},
		{"check", "redis://127.0.0.1", "-" + clitest.Secret},
		{"admit", "-yes", "redis://127.0.0.1", "http://127.0.0.1"},
	} {
		stdout, stderr := clitest.Command(t, cli.ExitUsage, args...)
		clitest.Contains(t, stderr, "URL 2: ")
		testkit.Check(t, stdout == "" && !strings.Contains(stderr, clitest.Secret) &&
			strings.Contains(stderr, "flags come before") == strings.Contains(args[2], clitest.Secret),
			"%q: printed %q, %q", args, stdout, stderr)
	}
	_, stderr := clitest.Command(t, cli.ExitUsage, "check", "-max-lease", "1ns", "redis://127.0.0.1")
	clitest.Contains(t, stderr, "max lease 1ns")
}
