package redistest_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

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

func isRunID(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}
