package members

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: []cli.Command{Command, masters.Check, masters.Admit}})
}

// lease is the deployment's max lease in most tests.
const lease = "-max-lease=6s"

// command is a members command, with that max lease.
func command(t *testing.T, code int, verb string, args ...string) (out, errs string) {
	t.Helper()
	return clitest.Command(t, code, append([]string{"members", verb, lease}, args...)...)
}

// admit gives the masters their list.
func admit(t *testing.T, urls ...string) {
	t.Helper()
	clitest.Command(t, cli.ExitOK, append([]string{"admit", "-yes", "-members", lease}, urls...)...)
}

// named returns the URLs of masters that are called a, b and so on.
func named(fleet *redistest.Fleet) (urls []string) {
	for i, url := range fleet.URLs() {
		urls = append(urls, fmt.Sprintf("%s?name=%c", url, 'a'+i))
	}
	return urls
}

// claim marks a master as claimed for these members.
func claim(t *testing.T, m *redistest.Master, name string, members ...string) {
	t.Helper()
	marker := scripts.Marker{Process: scripts.Process{Run: testkit.Info(t, m, "server", "run_id"), MaxLease: 6 * time.Second, Member: name},
		Claimed: true, Generation: 1, Members: scripts.NewList(members...), Next: scripts.NewList()}
	testkit.Do(t, m, "SET", scripts.MarkerKey, marker.String())
}

// Masters that a change has removed are said to be retired, and are not fit; what has nothing to do
// says so.
func TestMembersThatAreRetired(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 4)
	urls, names := named(fleet), []string{"a", "b", "c", "d"}
	admit(t, urls...)
	printed, _ := command(t, cli.ExitOK, "commit", urls...)
	clitest.Contains(t, printed, "Nothing to commit: the members are {a, b, c, d} already.")
	printed, _ = command(t, cli.ExitOK, "abort", urls...)
	clitest.Contains(t, printed, "Nothing to abort: no change is under way")

	printed, _ = command(t, cli.ExitOK, "remove", append([]string{"-wait", "1m", "d"}, urls...)...)
	clitest.Contains(t, printed, "The last change was less than one max lease ago: waiting for another", "Announced: clients with",
		"members commit with the URLs of {a, b, c}.", "members abort with the URLs of {a, b, c, d}.")
	printed, _ = command(t, cli.ExitOK, "show", urls...)
	for _, name := range names {
		if clitest.Contains(t, clitest.LineOf(t, printed, name), "{a, b, c, d}"); name != "d" {
			clitest.Contains(t, clitest.LineOf(t, printed, name), "{a, b, c}", "after this one")
		}
	}
	command(t, cli.ExitOK, "commit", urls...)
	printed, errs := command(t, cli.ExitFailed, "show", urls...)
	clitest.Contains(t, clitest.LineOf(t, printed, "d"), "retired: {a, b, c}")
	clitest.Contains(t, printed, "No change is under way.")
	clitest.Contains(t, errs, "d is retired: it is no member of {a, b, c}, and accepts nobody")
	printed, _ = clitest.Command(t, cli.ExitFailed, append([]string{"check", lease}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, "d"), "REFUSED master")
	clitest.Contains(t, printed, "retired: it is no member of {a, b, c} (generation 2), and accepts nobody", "0 of 4 masters are fit", "a, b, c: accept clients with")
	clitest.Command(t, cli.ExitOK, append([]string{"check", lease}, urls[:3]...)...)
	command(t, cli.ExitOK, "show", urls[:3]...)

	claim(t, fleet.Masters[0], "a", names...)
	printed, _ = command(t, cli.ExitOK, "show", urls[:3]...)
	clitest.Contains(t, clitest.LineOf(t, printed, "a"), "being marked for {a, b, c, d} none none -")
}

// A commit without a master that does not answer is not all done.
func TestMembersCommitWithoutOne(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 4)
	urls := fleet.URLs()
	admit(t, urls[:3]...)
	command(t, cli.ExitOK, "add", append([]string{"-wait", "1m", urls[3]}, urls[:3]...)...)
	testkit.Must(t, fleet.Masters[2].Kill())
	for range 2 {
		_, errs := command(t, cli.ExitFailed, "commit", urls...)
		clitest.Contains(t, errs, "not done on "+fleet.Masters[2].Addr()+": no reply. Repeat the command when it runs")
	}
}

// A node of a process that is a master already brings no vote of its own, and 64 masters are the most.
func TestMembersOfOneProcess(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := fleet.URLs()
	twin := urls[0] + "/1?name=twin"
	addr := fleet.Masters[0].Addr()
	_, errs := clitest.Command(t, cli.ExitFailed, append([]string{"admit", "-yes", "-members", lease, twin}, urls...)...)
	clitest.Contains(t, errs, "twin/1 ("+addr+") and "+addr+" ("+addr+") are one process, and one process is one vote")
	printed, _ := command(t, cli.ExitOK, "show", urls...)
	clitest.Contains(t, printed, "No master that answers has a list.")

	admit(t, urls...)
	_, errs = command(t, cli.ExitFailed, "add", append([]string{"-wait", "1m", twin}, urls...)...)
	clitest.Contains(t, errs, "twin/1 ("+addr+") and "+addr+" ("+addr+") are one process, and one process is one vote")
	printed, _ = command(t, cli.ExitOK, "show", urls...)
	clitest.Contains(t, printed, "No change is under way.")

	for i := range 62 {
		urls = append(urls, fmt.Sprintf("redis://127.0.0.1:1?name=dead%d", i))
	}
	_, errs = command(t, cli.ExitFailed, "add", urls...)
	clitest.Contains(t, errs, "a list has at most 64 masters, and this one would have 65")
}

// If no master may be asked for the lockers, commit needs the operator's word.
func TestMembersCommitWithoutAnyCensus(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := fleet.URLs()
	admit(t, urls...)
	command(t, cli.ExitOK, "remove", append([]string{"-wait", "1m", fleet.Masters[2].Addr()}, urls...)...)
	for _, m := range fleet.Masters {
		testkit.Do(t, m, "ACL", "SETUSER", "default", "-scan")
	}
	_, errs := command(t, cli.ExitFailed, "commit", urls...)
	clitest.Contains(t, errs, "no master said which lockers there are", "commit with -yes")
	printed, _ := command(t, cli.ExitOK, "show", urls...)
	clitest.Contains(t, printed, "is under way")
	testkit.Do(t, fleet.Masters[0], "ACL", "SETUSER", "default", "+scan")
	printed, _ = command(t, cli.ExitOK, "commit", urls...)
	clitest.Contains(t, printed, "did not say which lockers there are", "The members are")
}

// A master that was removed without its URL keeps its list. show names the commit that retires it.
func TestMembersShowNamesWhatRetires(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := named(fleet)
	admit(t, urls...)
	command(t, cli.ExitOK, "remove", append([]string{"-wait", "1m", "a"}, urls...)...)
	printed, _ := command(t, cli.ExitOK, "commit", urls[1:]...)
	clitest.Contains(t, printed, "a was not retired", "repeat the command with its URL too")
	printed, _ = command(t, cli.ExitOK, "show", urls...)
	clitest.Contains(t, printed, "members commit with the URLs of {a, b, c} gives all of them the list {b, c}, and retires a.")
	command(t, cli.ExitOK, "commit", urls...)
	printed, _ = command(t, cli.ExitFailed, "show", urls...)
	clitest.Contains(t, clitest.LineOf(t, printed, "a"), "retired: {b, c}")
}

// An add was begun, and then the members changed: show names the list to which the master can be added.
func TestMembersShowOfAStaleClaim(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := named(fleet)
	admit(t, urls[:2]...)
	claim(t, fleet.Masters[2], "c", "a", "b", "d")
	printed, _ := command(t, cli.ExitOK, "show", urls...)
	clitest.Contains(t, printed, "A change that adds c to {a, b, d} was begun and is not announced: the members are {a, b} now, "+
		"and members add takes c with the URLs of that list.")
	command(t, cli.ExitOK, "add", append([]string{"-wait", "1m", urls[2]}, urls[:2]...)...)

	claim(t, fleet.Masters[2], "c", "a", "b")
	admit(t, urls[:2]...)
	printed, _ = command(t, cli.ExitOK, "show", urls...)
	clitest.Contains(t, printed, "adds c to {a, b} was begun and is not announced: the same members add goes on.")
}

// Masters of two max leases answer to neither as one deployment: the error says how they get one.
func TestMembersOfTwoMaxLeases(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := fleet.URLs()
	for i, lease := range []string{"2s", "2s", "3s"} {
		clitest.Command(t, cli.ExitOK, "admit", "-yes", "-max-lease", lease, urls[i])
	}
	for _, lease := range []string{"2s", "3s"} {
		for _, verb := range []string{"show", "commit", "abort"} {
			_, errs := clitest.Command(t, cli.ExitFailed, append([]string{"members", verb, "-max-lease", lease}, urls...)...)
			clitest.Contains(t, errs, "max lease differs", "other masters of this list have this client's", "(DEL "+scripts.MarkerKey+")")
			testkit.Check(t, !strings.Contains(errs, "give the deployment's"),
				"%s -max-lease %s: %s", verb, lease, errs)
		}
	}
	testkit.Do(t, fleet.Masters[2], "DEL", scripts.MarkerKey)
	clitest.Command(t, cli.ExitOK, append([]string{"members", "show", "-max-lease=2s"}, urls...)...)
}

// An interrupt ends a command at once, whatever its masters' timeout.
func TestCommandsAreInterruptedAtOnce(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer silent.Close()
	for _, line := range []string{"members show", "members commit", "members abort", "check", "admit -yes"} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- clitest.Run(ctx, append(strings.Fields(line), "-timeout=1m", "redis://"+silent.Addr().String()), &clitest.Output{}, &clitest.Output{})
		}()
		conn, err := silent.Accept()
		testkit.Must(t, err)
		interrupt()
		select {
		case code := <-ended:
			testkit.Check(t, code == cli.ExitInterrupted, "%s ends with %d", line, code)
		case <-time.After(20 * time.Second):
			t.Errorf("%s goes on", line)
		}
		conn.Close()
	}
}

// A member's clock was set back by an hour after a change: the next change waits for one max lease.
func TestMembersOfAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := fleet.URLs()
	admit(t, urls...)
	marker, err := scripts.ParseMarker(fmt.Sprintf("%s", testkit.Do(t, fleet.Masters[1], "GET", scripts.MarkerKey)))
	testkit.Must(t, err)
	marker.Change += time.Hour
	testkit.Do(t, fleet.Masters[1], "SET", scripts.MarkerKey, marker.String())
	remove := append([]string{fleet.Masters[2].Addr()}, urls...)
	_, errs := command(t, cli.ExitFailed, "remove", remove...)
	_, advice, _ := strings.Cut(errs, "(-wait ")
	wait, _, _ := strings.Cut(advice, " ")
	clitest.Contains(t, errs, "waits for another "+wait+",")
	began := time.Now()
	printed, _ := command(t, cli.ExitOK, "remove", append([]string{"-wait", wait}, remove...)...)
	clitest.Contains(t, printed, "The last change was less than one max lease ago: waiting for another", "Announced: clients with")
	took := time.Since(began)
	testkit.Check(t, took >= 4*time.Second, "it waited for %v", took) // the wait began with the command that was refused
}

// Masters that restarted with their data during a change: show has the lists that they had.
func TestMembersShowOfMastersThatRestarted(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 2)
	urls := fleet.URLs()
	present, next := scripts.NewList("a", "b", "c"), scripts.NewList("a", "b")
	for i, m := range fleet.Masters {
		name := string(rune('a' + i))
		urls[i] += "?name=" + name
		before := scripts.Marker{Process: scripts.Process{Run: "before", MaxLease: 2 * time.Second, Member: name}, Generation: 3, Members: present, Next: next}
		testkit.Do(t, m, "SET", scripts.MarkerKey, before.String())
	}
	printed, _ := clitest.Command(t, cli.ExitOK, append([]string{"members", "show", "-max-lease=2s"}, urls...)...)
	clitest.Contains(t, clitest.LineOf(t, printed, "a"), "- blank: had {a, b, c} {a, b} - -")
	_, errs := clitest.Command(t, cli.ExitFailed, append([]string{"members", "commit", "-max-lease=2s"}, urls...)...)
	clitest.Contains(t, errs, "a is blank: a client with {a, b, c} must mark it")
}

// What no list can be is refused in a sentence that says why, and nothing is written. package membership tests the
// refusals that depend on the markers.
func TestMembersThatCannotBe(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 3)
	urls := named(fleet)
	a, b, c := urls[0], urls[1], urls[2]
	admit(t, urls...)
	marker := func() string { return fmt.Sprintf("%s", testkit.Do(t, fleet.Masters[0], "GET", scripts.MarkerKey)) }
	before := marker()
	for says, args := range map[string][]string{
		"{a} would be left: a change to fewer than two masters":                           {"remove", "-max-lease=6s", "b", a, b},
		"add needs the URL of the new master, and then the URLs of the present list":      {"add", "-max-lease=6s", a},
		"two URLs have the name b":                                                        {"add", "-max-lease=6s", a, b, b},
		`{a, b, c} has no member of that name: "x"; give the present list`:                {"remove", "-max-lease=6s", "x", a, b, c},
		"{a, b, c} has no member of that name; give the present list":                     {"remove", "-max-lease=6s", ":" + clitest.Secret + "@h:6379", a, b, c},
		"the deployment's is 6s, this client's 1s: give the deployment's with -max-lease": {"remove", "-max-lease=1s", "c", a, b, c},
	} {
		_, errs := clitest.Command(t, cli.ExitFailed, append([]string{"members"}, args...)...)
		clitest.Contains(t, errs, says)
		testkit.Check(t, !strings.Contains(errs, clitest.Secret), "a password was printed: %s", errs)
	}
	testkit.Equal(t, marker(), before, "the marker")
	for _, args := range [][]string{{"add"}, {"commit"}, {"abort"}, {"remove"}, {"remove", "b"}, {"remove", a, b}, {"add", "-yes", a}} {
		says := map[bool]string{true: " needs the ", false: ": unknown flag"}[len(args) < 2 || args[0] == "remove"]
		_, errs := clitest.Command(t, cli.ExitUsage, append([]string{"members"}, args...)...)
		clitest.Contains(t, errs, "members "+args[0]+says, "(see quorumlock members "+args[0]+" -h)")
	}
}

func TestMembersShowSaysNothingOfMastersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	master := testkit.Real(t, 1).Masters[0]
	const dead = "redis://127.0.0.1:1"
	printed, _ := clitest.Command(t, cli.ExitFailed, "members", "show", dead)
	clitest.Contains(t, printed, "not known")
	testkit.Check(t, !strings.Contains(printed, "No change"), "of a dead master: %q", printed)
	printed, _ = clitest.Command(t, cli.ExitFailed, "members", "show", dead, master.URL())
	clitest.Contains(t, printed, "No master that answers has a list.")
	clitest.Command(t, cli.ExitOK, "admit", "-yes", "-members", master.URL())
	printed, _ = clitest.Command(t, cli.ExitFailed, "members", "show", dead, master.URL())
	clitest.Contains(t, printed, "No change is under way on the masters that answered.")
	printed, _ = clitest.Command(t, cli.ExitOK, "members", "show", master.URL())
	clitest.Contains(t, printed, "No change is under way.\n")
}

// The masters' markers spell the names in another way than the clients do: a lock is held over them while the members change.
func TestMembersOfMarkersThatSpellNamesOtherwise(t *testing.T) {
	t.Parallel()
	fleet := testkit.Real(t, 4)
	spelled, urls := []string{"Redis-A.:6379", "[::FFFF:10.0.0.1]:6379", "REDIS-C.example.:06379"}, fleet.URLs()
	for i, name := range append(spelled, "redis-d:6379") {
		urls[i] += "?name=" + url.QueryEscape(scripts.Canonical(name))
	}
	for i, name := range spelled {
		of := scripts.Process{Run: testkit.Info(t, fleet.Masters[i], "server", "run_id"), MaxLease: 6 * time.Second, Member: name}
		marker := scripts.Marker{Process: of, Generation: 1, Members: scripts.NewList(spelled...), Next: scripts.NewList()}
		testkit.Do(t, fleet.Masters[i], "SET", scripts.MarkerKey, marker.String())
	}
	options := []quorum.Option{quorum.WithLease(4 * time.Second), quorum.WithNodeOptions(node.WithMaxLease(6 * time.Second))}
	l, err := quorum.Open(urls[:3], quorum.Majority, options...)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, l.Close()) }()
	lock, err := l.Lock(t.Context(), "job")
	testkit.Must(t, err)
	printed, _ := command(t, cli.ExitOK, "show", urls[:3]...)
	clitest.Contains(t, printed, "{10.0.0.1:6379, redis-a.:6379, redis-c.example:6379}", "No change is under way.")
	command(t, cli.ExitOK, "add", append([]string{urls[3]}, urls[:3]...)...)
	four, err := quorum.Open(urls, quorum.Majority, options...)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, four.Close()) }()
	held := lock.Deadline()
	testkit.Eventually(t, "the lock is renewed, and by the new list there is another", func() bool {
		return lock.Deadline().After(held)
	})
	_, err = four.TryLock(t.Context(), "job")
	testkit.Is(t, err, quorum.ErrHeld, "another list's attempt")
	testkit.Check(t, lock.Valid(), "%v", lock.Err())
	testkit.Must(t, lock.Unlock(t.Context()))
	testkit.Must(t, l.Close())
	command(t, cli.ExitOK, "commit", append([]string{"-yes"}, urls...)...)
	command(t, cli.ExitOK, "remove", append([]string{"-wait", "1m", "Redis-A.:06379"}, urls...)...)
	command(t, cli.ExitOK, "commit", append([]string{"-yes"}, urls...)...)
	clitest.Command(t, cli.ExitOK, append([]string{"check", lease}, urls[1:]...)...)
}
