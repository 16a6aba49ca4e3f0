package members

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/child"
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

func command(t *testing.T, code int, verb string, args ...string) (out, errs string) {
	t.Helper()
	return clitest.Command(t, code, append([]string{"members", verb, lease}, args...)...)
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
			ended <- clitest.Run(ctx, append(strings.Fields(line), "-timeout=1m", "redis://"+silent.Addr().String()), &child.Printed{}, &child.Printed{})
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
