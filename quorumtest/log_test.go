package quorumtest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// printing is a test whose output is kept.
type printing struct {
	testing.TB
	all child.Printed
}

func (p *printing) Output() io.Writer { return &p.all }

// What lockers log belongs to the test: a test that passes is silent.
func TestLockersLogToTheTest(t *testing.T) {
	tb := &printing{TB: t}
	m := Start(tb, 3)
	locker := m.Locker()
	m.Stop(0)
	m.Stop(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := locker.Lock(ctx, "a")
	testkit.Check(t, err != nil, "it locks without a majority")
	for _, line := range []string{"quorumlock: node down", "quorumlock: waiting for nodes"} {
		testkit.Check(t, poll.Until(5*time.Second, func() bool { return strings.Contains(tb.all.String(), line) }), "no %q in the test's output", line)
	}
}
