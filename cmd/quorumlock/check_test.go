package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// lineOf returns the table's line for a master.
func lineOf(t *testing.T, printed string, addr string) string {
	t.Helper()
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, addr+" ") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	t.Fatalf("nothing about %s in:\n%s", addr, printed)
	return ""
}

func TestCheckAndAdmit(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := fleet.URLs()
	addr := fleet.Masters[0].Addr()

	printed, _ := command(t, exitOK, append([]string{"check"}, urls...)...)
	contains(t, lineOf(t, printed, addr), "quarantine master", "none no bound 30.0s")
	contains(t, printed, "no client has used this server", "3 of 3 masters are fit for locks, 3 of these in quarantine")
	for _, m := range fleet.Masters {
		if keys := testkit.Do(t, m, "DBSIZE"); keys != int64(0) {
			t.Errorf("check wrote %v keys", keys)
		}
	}

	printed, _ = command(t, exitOK, append([]string{"admit", "-yes", "-max-lease", "20s"}, urls...)...)
	contains(t, lineOf(t, printed, addr), "admitted its quarantine had not begun; max lease 20s")
	printed, _ = command(t, exitOK, append([]string{"check", "-max-lease", "20s"}, urls...)...)
	contains(t, lineOf(t, printed, addr), "ok master", "none no bound none")
	contains(t, printed, "3 of 3 masters are fit for locks.\n")
	printed, _ = command(t, exitOK, append([]string{"admit", "-yes", "-max-lease", "20s"}, urls...)...)
	contains(t, lineOf(t, printed, addr), "admitted was not in quarantine")
}

// An empty master in a dead one's place holds no lock, but the dead master's leases may be alive.
func TestAdmitPrintsTheOperatorsWord(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 1)
	const belief = `no lease is alive that one of these masters granted, or a master whose place it takes in the
clients' lists. That holds once no client has held or requested a lock there for one max lease.`

	printed, explained := command(t, exitUsage, "admit", fleet.URLs()[0])
	contains(t, explained, "quorumlock: with admit you assert that "+belief+"\n", "two holders", "An empty spare",
		"To assert it: the same command with -yes", "wait one max lease")
	if printed != "" || testkit.Do(t, fleet.Masters[0], "DBSIZE") != int64(0) {
		t.Errorf("admit without -yes: printed %q, %v keys", printed, testkit.Do(t, fleet.Masters[0], "DBSIZE"))
	}
	_, explained = command(t, exitUsage, "admit", "-members", fleet.URLs()[0])
	contains(t, explained, "only clients with {"+fleet.Masters[0].Addr()+"}", "To assert it: the same command with -yes.\n")
	printed, _ = command(t, exitOK, "admit", "-yes", fleet.URLs()[0])
	contains(t, printed, "\nYou asserted that "+belief+"\n")
	printed, _ = command(t, exitFailed, "admit", "-yes", "redis://127.0.0.1:1")
	if strings.Contains(printed, "You asserted") {
		t.Errorf("of none admitted: %q", printed)
	}
	help, _ := command(t, exitOK, "admit", "-h")
	contains(t, help, "whose place")
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
	printed, _ := command(t, exitFailed, append([]string{"check", "-timeout", timeout}, urls...)...)
	contains(t, lineOf(t, printed, evicts.Addr()), "REFUSED master", "64 MB, allkeys-lru")
	contains(t, lineOf(t, printed, replica.Addr()), "REFUSED slave")
	contains(t, lineOf(t, printed, twin.Addr()), "REFUSED master")
	contains(t, lineOf(t, printed, other), "REFUSED master")
	contains(t, lineOf(t, printed, gone.Addr()), "FAILED")
	contains(t, lineOf(t, printed, frozen.Addr()), "FAILED")
	contains(t, lineOf(t, printed, well.Addr()), "quarantine master")
	contains(t, printed, "may evict locks", "is a replica", "it is one process with", "refused", "timed out", "1 of 7 masters are fit")

	printed, _ = command(t, exitFailed, append([]string{"admit", "-yes", "-timeout", timeout}, urls...)...)
	contains(t, lineOf(t, printed, evicts.Addr()), "NOT ADMITTED", "may evict locks")
	contains(t, lineOf(t, printed, replica.Addr()), "NOT ADMITTED")
	contains(t, lineOf(t, printed, gone.Addr()), "NOT ADMITTED")
	contains(t, lineOf(t, printed, well.Addr()), " admitted ")
}

func TestMembersShowSaysNothingOfMastersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	master := testkit.Real(t, 1).Masters[0]
	const dead = "redis://127.0.0.1:1"
	printed, _ := command(t, exitFailed, "members", "show", dead)
	if contains(t, printed, "does not answer"); strings.Contains(printed, "No change") {
		t.Errorf("of a dead master: %q", printed)
	}
	printed, _ = command(t, exitFailed, "members", "show", dead, master.URL())
	contains(t, printed, "No master that answers has a list.")
	command(t, exitOK, "admit", "-yes", "-members", master.URL())
	printed, _ = command(t, exitFailed, "members", "show", dead, master.URL())
	contains(t, printed, "No change is under way on the masters that answered.")
	printed, _ = command(t, exitOK, "members", "show", master.URL())
	contains(t, printed, "No change is under way.\n")
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	master := testkit.Real(t, 1).Masters[0]
	const right, wrong = "right-pw-never-shown", "wrong-pw-never-shown"
	testkit.Do(t, master, "CONFIG", "SET", "requirepass", right)
	for _, test := range []struct {
		password string
		code     int
		says     string
	}{{right, exitOK, "master"}, {wrong, exitFailed, "WRONGPASS"}} {
		url := "redis://:" + test.password + "@" + master.Addr()
		for _, args := range [][]string{{"check", url}, {"admit", "-yes", url}} {
			printed, errs := command(t, test.code, args...)
			if args[0] == "check" || test.code != exitOK {
				contains(t, printed, test.says)
			}
			if strings.Contains(printed+errs, "never-shown") {
				t.Errorf("a password was printed:\n%s\n%s", printed, errs)
			}
		}
	}
	printed, _ := command(t, exitFailed, "check", master.URL())
	contains(t, printed, "FAILED", "NOAUTH")
}

func TestCheckCountsMasters(t *testing.T) {
	t.Parallel()
	const note = "redlock needs an odd number of masters, 3 or more to survive the loss of one\n"
	for count, noted := range map[int]bool{1: true, 2: true, 3: false, 4: true, 5: false, 6: true} {
		args := []string{"check"}
		for range count {
			args = append(args, "redis://127.0.0.1:1")
		}
		printed, _ := command(t, exitFailed, args...)
		if strings.HasSuffix(printed, note) != noted {
			t.Errorf("%d masters: the note's presence should be %v:\n%s", count, noted, printed)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	testkit.Must(t, fleet.Masters[2].Kill())
	command(t, exitFailed, append([]string{"admit", "-yes"}, fleet.URLs()...)...)
	printed, _ := command(t, exitFailed, append([]string{"check", "-json"}, fleet.URLs()...)...)
	var report checkJSON
	if err := json.Unmarshal([]byte(printed), &report); err != nil {
		t.Fatal(err, printed)
	}
	if report.Fit != 2 || report.Granting != 2 || len(report.Masters) != 3 || report.Masters[0].State != stateOK ||
		report.Masters[2].State != stateFailed || report.Masters[2].Error == "" {
		t.Errorf("%+v", report)
	}
}

func TestCheckWaits(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	testkit.Must(t, fleet.Masters[2].Kill())
	urls := fleet.URLs()
	printed, _ := command(t, exitFailed, append([]string{"check", "-wait", "10ms"}, urls...)...)
	contains(t, printed, "0 of 3 masters grant: a majority is 2.")

	type result struct {
		code int
		out  string
	}
	done := make(chan result)
	go func() {
		var out output
		code := run(t.Context(), append([]string{"check", "-wait", "40s"}, urls...), &out, &output{})
		done <- result{code, out.String()}
	}()
	command(t, exitFailed, append([]string{"admit", "-yes"}, urls...)...)
	r := <-done
	contains(t, r.out, "2 of 3 masters grant: a majority is 2.")
	if r.code != exitOK {
		t.Errorf("exit code %d", r.code)
	}
	// Masters of another list do not grant to clients with this one.
	command(t, exitFailed, append([]string{"admit", "-yes", "-members"}, urls...)...)
	command(t, exitOK, append([]string{"check", "-wait", "10ms"}, urls...)...)
	command(t, exitFailed, append([]string{"check", "-wait", "10ms"}, urls[:2]...)...)
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
		printed, _ := command(t, exitFailed, "check", "-timeout", "10s", url)
		contains(t, printed, "FAILED", "  - "+hint+"\n")
		printed, _ = command(t, exitFailed, "check", "-timeout", "10s", "-json", url)
		contains(t, printed, hint)
	}
	printed, _ := command(t, exitFailed, "check", "redis://127.0.0.1:1")
	if strings.Contains(printed, "TLS") {
		t.Errorf("a hint for a port where nothing listens: %s", printed)
	}
}

// The URLs, which may hold passwords, need not be on the command line. A command that changes what
// masters grant takes none from the environment.
func TestURLsAreNotOnTheCommandLine(t *testing.T) {
	d := deploy(t, 3, 30*time.Second)
	flags := d.flagsOf(t)
	for _, name := range []string{"check", "members show"} {
		words := strings.Fields(name)
		printed, _ := command(t, exitOK, slices.Concat(words, flags)...)
		contains(t, printed, d.Masters[0].Addr(), d.Masters[2].Addr())
		t.Setenv(urlsVariable, strings.Join(d.URLs(), " "))
		printed, _ = command(t, exitOK, words...)
		contains(t, printed, d.Masters[0].Addr(), d.Masters[1].Addr())
		t.Setenv(urlsVariable, "")
	}
	t.Setenv(urlsVariable, d.Masters[0].URL())
	for _, words := range [][]string{{"admit", "-yes"}, {"members", "commit"}, {"members", "add"}, {"members", "abort"}} {
		_, errs := command(t, exitUsage, words...)
		contains(t, errs, "needs the URL", "does not read "+urlsVariable)
	}
	printed, _ := command(t, exitOK, slices.Concat([]string{"admit"}, flags, []string{"-yes"})...)
	contains(t, printed, d.Masters[0].Addr(), d.Masters[2].Addr())
	_, errs := command(t, exitUsage, "check", "-urls-file", t.TempDir()+"/none")
	contains(t, errs, "quorumlock: check: ", "/none: no such file")
}
