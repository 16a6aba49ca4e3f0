package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

// kinds start fleets of each kind.
var kinds = map[string]func(*testing.T, int) *redistest.Fleet{
	"real":     func(t *testing.T, n int) *redistest.Fleet { return testkit.Real(t, n) },
	"embedded": func(t *testing.T, n int) *redistest.Fleet { return standin.ForTest(t, n) },
}

func TestStartWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.BinaryVariable, "")
	testkit.Is(t, testkit.ErrorOf(redistest.StartReal(1)), redistest.ErrNoServer, "StartReal")
}

func TestStartThatFailsTellsWhyAndLeavesNothing(t *testing.T) {
	testkit.Real(t, 1) // skips without redis-server
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := redistest.StartReal(2, "--no-such-directive", "1")
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "no-such-directive"),
		"error %v: want what the server wrote", err)
	left, err := os.ReadDir(temp)
	testkit.Check(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
	_, err = standin.Start(0)
	testkit.Check(t, err != nil, "started a fleet of none")
}

func TestFleetStop(t *testing.T) {
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			fleet := start(t, 3)
			testkit.Must(t, fleet.Masters[0].Kill())
			err := fleet.Masters[1].Freeze()
			testkit.Require(t, err == nil || errors.Is(err, redistest.ErrEmbedded), "%v", err)
			testkit.Must(t, fleet.Stop())
			testkit.Must(t, fleet.Stop())
			for _, m := range fleet.Masters {
				_, err := m.Do("PING")
				testkit.Check(t, err != nil, "%s answers after Stop", m.Addr())
				testkit.Check(t, m.Start() != nil, "%s starts after Stop", m.Addr())
			}
			left, err := os.ReadDir(temp)
			testkit.Check(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
		})
	}
}

func TestAKilledMasterComesBackEmptyAtItsAddress(t *testing.T) {
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			fleet := start(t, 2)
			m, other := fleet.Masters[0], fleet.Masters[1]
			addr := m.Addr()
			runID := func() string { return testkit.Info(t, m, "server", "run_id") }
			before := runID()
			testkit.Do(t, m, "SET", "k", "v")
			testkit.Do(t, other, "SET", "k", "v")
			conn := testkit.Got(redis.Dial("tcp", addr))(t)
			defer conn.Close()

			testkit.Must(t, m.Kill())
			_, err := conn.Do("PING")
			testkit.Check(t, err != nil, "a connection survived the kill")
			_, err = m.Do("PING")
			testkit.Require(t, err != nil, "a killed master answers")
			testkit.Check(t, m.Kill() != nil, "killed twice")
			testkit.Must(t, m.Start())
			testkit.Check(t, m.Start() != nil, "started while it runs")
			testkit.Check(t, m.Addr() == addr, "address %s, before %s", m.Addr(), addr)
			testkit.Check(t, testkit.Do(t, m, "GET", "k") == nil, "it has its key")
			got, err := redis.String(other.Do("GET", "k"))
			testkit.Check(t, err == nil && got == "v", "the other master's key: %q, %v", got, err)
			testkit.Check(t, isRunID(runID()) && runID() != before, "the run id is %q, and was %q", runID(), before)
		})
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		startAndWait()
		return
	}
	goleak.VerifyTestMain(m)
}

// orphanVariable makes the test binary the parent in TestServersDieWithAKilledParent.
const orphanVariable = "QUORUMLOCK_MASTERS_PARENT"

// startAndWait is the parent: it starts a server, prints its URL and waits.
func startAndWait() {
	fleet, err := redistest.StartReal(1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(fleet.URLs()[0])
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	if err := fleet.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func isRunID(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// A client of a master that crashes loses its connection. It never gets an error reply: that would
// mean that the server looked at the command and refused it.
func TestEmbeddedKillAndStartGiveClientsNoErrorReplies(t *testing.T) {
	m := standin.ForTest(t, 1).Masters[0]
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for range 32 {
		running.Go(func() {
			for err := error(nil); err == nil && t.Context().Err() == nil; { // which ends before the cleanup
				err = firstErrorReply(m)
				testkit.Is(t, err, nil, "an error reply")
			}
		})
	}
	for range 50 {
		testkit.Must(t, m.Kill())
		testkit.Must(t, m.Start())
		testkit.Do(t, m, "PING")
	}
}

// firstErrorReply sends commands on one connection until it breaks, or one is refused.
func firstErrorReply(m *redistest.Master) error {
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(time.Second))
	if err != nil {
		return nil
	}
	defer conn.Close()
	for range 20 {
		_, err := conn.Do("SET", "k", "v")
		var reply redis.Error
		if errors.As(err, &reply) {
			return reply
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// pretend makes a program the server: it answers --version with that text.
func pretend(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	testkit.Must(t, child.WriteProgram(path, fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)))
	t.Setenv(redistest.BinaryVariable, path)
	return path
}

// Tests must not be skipped for a mistake in the variable.
func TestAServerThatIsNamedAndCannotBeUsed(t *testing.T) {
	t.Setenv(redistest.BinaryVariable, filepath.Join(t.TempDir(), "none"))
	_, err := redistest.FindBinary()
	testkit.Check(t, err != nil && !errors.Is(err, redistest.ErrNoServer) && strings.Contains(err.Error(), redistest.BinaryVariable),
		"a path without a file: %v", err)
	pretend(t, "hello")
	_, err = redistest.FindBinary()
	testkit.Check(t, err != nil && !errors.Is(err, redistest.ErrNoServer), "a program that is no server: %v", err)
}

// A server without TLS fails in words of its version, and none of them is about a certificate.
func TestTLSIsWhatTheServerWasBuiltWith(t *testing.T) {
	for says, lacks := range map[string]bool{
		"# Failed to load certificate: none.pem: error:80000002: No such file": false,
		">>> 'tls-port 6379' Bad directive or wrong number of arguments":       true,
		"# Failed to configure TLS. Check logs for more info.":                 true,
	} {
		path := pretend(t, "")
		testkit.Must(t, child.WriteProgram(path, fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v=7.0.15 sha=0' && exit\ncat <<'end'\n%s\nend\nexit 1\n", says)))
		reason, err := redistest.Lacks(redistest.TLS)
		testkit.Check(t, err == nil && (reason != "") == lacks && (!lacks || strings.Contains(reason, "built without TLS")),
			"%s: %q, %v", says, reason, err)
	}
}

func TestWhatAVersionLacks(t *testing.T) {
	for version, lacks := range map[string]bool{
		"Redis server v=6.0.20 sha=0":          true,
		"Redis server v=6.2.0 sha=0":           false,
		"Redis server v=7.4.1 sha=0":           false,
		"Redis server v=10.0.0 sha=0":          false,
		"Redis server v=255.255.255 sha=0":     false,
		"Redis server v=unstable sha=00000000": false,
		"Valkey server v=8.0.1 sha=0":          false,
	} {
		pretend(t, version)
		reason, err := redistest.Lacks(redistest.ClientInfo, redistest.ACLChannels)
		testkit.Check(t, err == nil && (reason != "") == lacks, "%s: lacks %q, %v", version, reason, err)
		testkit.Check(t, !lacks || reason == "redis-server 6.0.20 has no CLIENT INFO (that came with Redis 6.2)",
			"the reason is %q", reason)
	}
}
