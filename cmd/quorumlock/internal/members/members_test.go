package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: []cli.Command{Command, masters.Check, masters.Admit}})
}

// Of masters of two max leases the error says how those that have the wrong one are wiped.
func TestTwoMaxLeases(t *testing.T) {
	t.Parallel()
	of := scripts.Process{Run: "run", MaxLease: time.Second, Member: "a"}
	marker := scripts.Marker{Process: of, Generation: 1, Members: scripts.NewList("a", "b/3"), Next: scripts.NewList()}
	seen := change.Seen{
		Views: map[string]*membership.View{"a": membership.Read(scripts.Seen{Marker: marker.String(), Process: of}, 0)},
		Errs:  map[string]error{"b/3": membership.DifferentMaxLease(time.Minute, time.Second)},
	}
	noteTwoMaxLeases(seen)
	clitest.Contains(t, seen.Errs["b/3"].Error(), "(DEL quorumlock:marker in database 3)")
}

// A master that timed out may be slow: no repetition of the command would help.
func TestATimeoutNamesItsFlag(t *testing.T) {
	t.Parallel()
	said := explain(errors.New("too few"), map[string]error{
		"a": &node.Error{Node: "a", Op: "counters", Err: fmt.Errorf("%w after 500ms", node.ErrTimeout)},
		"b": &node.Error{Node: "b", Op: "counters", Err: errors.New("no connection")},
	}).Error()
	const want = "too few\n  a: counters: timed out after 500ms: if it is only slow, give it longer with -timeout\n  b: counters: no connection"
	testkit.Equal(t, said, want, "the error")
}

// An interrupt ends a command at once, whatever its masters' timeout.
func TestCommandsAreInterruptedAtOnce(t *testing.T) {
	t.Parallel()
	silent := testkit.Opened(net.Listen("tcp", "127.0.0.1:0"))(t)
	for _, line := range []string{"members show", "members commit", "members abort", "check", "admit -yes"} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- clitest.Run(ctx, append(strings.Fields(line), "-timeout=1m", "redis://"+silent.Addr().String()), &child.Printed{}, &child.Printed{})
		}()
		conn := testkit.Got(silent.Accept())(t)
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
