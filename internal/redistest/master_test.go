package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

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

// startReal starts n processes that end with the test. It skips the test without redis-server.
func startReal(t *testing.T, n int, args ...string) *redistest.Fleet {
	t.Helper()
	fleet, err := redistest.StartReal(n, args...)
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("needs real servers: %v", err)
	}
	return stopLater(t, fleet, err)
}

func startEmbedded(t *testing.T, n int) *redistest.Fleet {
	t.Helper()
	fleet, err := redistest.StartEmbedded(n)
	return stopLater(t, fleet, err)
}

func stopLater(t *testing.T, fleet *redistest.Fleet, err error) *redistest.Fleet {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, fleet.Stop()) })
	return fleet
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustDo returns a reply as text; "" stands for nil.
func mustDo(t *testing.T, m *redistest.Master, args ...any) string {
	t.Helper()
	reply, err := m.Do(args...)
	if reply == nil && err == nil {
		return ""
	}
	text, err := redis.String(reply, err)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return text
}

// infoField returns one field of a master's INFO.
func infoField(t *testing.T, m *redistest.Master, section, field string) string {
	t.Helper()
	return fieldOf(t, mustDo(t, m, "INFO", section), field)
}

func fieldOf(t *testing.T, info, field string) string {
	t.Helper()
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return value
		}
	}
	t.Fatalf("no %s in INFO:\n%s", field, info)
	return ""
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(5*time.Second, holds) {
		t.Fatalf("not within 5s: %s", what)
	}
}

func isRunID(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}
