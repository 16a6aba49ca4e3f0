package clienttest

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// Sentinel tests the node of a master "locks" that Sentinel names, whose sentinels have the settings' address and
// credentials. The client's dialer makes its connections to both.
func Sentinel(t *testing.T, open Opener) {
	t.Helper()
	m := testkit.Real(t, 1).Masters[0]
	setPassword(t, m, "s3cret")
	host, port, _ := net.SplitHostPort(m.Addr())
	sentinel, _ := canned.Listen(t, func(args []string) string {
		switch said := strings.Join(args, " "); said {
		case "AUTH app s3cret":
			return "+OK\r\n"
		case "SENTINEL GET-MASTER-ADDR-BY-NAME locks":
			return canned.Array(host, port)
		default:
			t.Errorf("a sentinel was told: %s", said)
			return canned.HangUp
		}
	})
	s := Settings{Addr: "sentinel.internal:7000", User: "app", Password: "s3cret", DB: 1, Timeout: bound,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "sentinel.internal:7000" {
				address = sentinel
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
	n := testkit.Opened(open(s, node.WithFailover(1)))(t)
	testkit.Equal(t, n.Name(), "locks/1", "named")
	report := testkit.Got(operator.Check(t.Context(), n))(t)
	testkit.Equal(t, report.Role, "master", "the role of what it leads to")

	refused, err := open(s)
	testkit.Check(t, errors.Is(err, node.ErrInvalid) && refused == nil && strings.Contains(err.Error(), "WithFailover") &&
		!strings.Contains(err.Error(), "s3cret"), "without a failover: %v", err)
}
