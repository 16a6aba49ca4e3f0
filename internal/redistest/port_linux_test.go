package redistest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Otherwise a client that redials could take the port of a killed master, which then could not come
// back.
func TestNoConnectionTakesThePortOfAKilledMaster(t *testing.T) {
	fleet := testkit.Embedded(t, 2)
	killed, other := fleet.Masters[0], fleet.Masters[1]
	testkit.Must(t, killed.Kill())

	from, err := net.ResolveTCPAddr("tcp4", killed.Addr())
	testkit.Must(t, err)
	dialer := net.Dialer{LocalAddr: from}
	conn, err := dialer.Dial("tcp4", other.Addr())
	if !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			conn.Close()
		}
		t.Errorf("a connection from %s: %v, want EADDRINUSE", from, err)
	}
	testkit.Must(t, killed.Start())
	mustDo(t, killed, "PING")
}
