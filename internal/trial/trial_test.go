package trial_test

import (
	"bytes"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/bubble"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/trial"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const lateness = 10 * time.Second

// lateConn delivers what names the second owner late, even if it is closed meanwhile.
type lateConn struct {
	net.Conn
	owners atomic.Int32
}

func (c *lateConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("quorumlock:released:")) {
		c.owners.Add(1)
	}
	if c.owners.Load() < 2 {
		return c.Conn.Write(p)
	}
	late := bytes.Clone(p)
	time.AfterFunc(lateness, func() { _, _ = c.Conn.Write(late) })
	return len(p), nil
}

func (c *lateConn) SetDeadline(time.Time) error      { return nil }
func (c *lateConn) SetWriteDeadline(time.Time) error { return nil }

func (c *lateConn) Close() error {
	if c.owners.Load() < 2 {
		return c.Conn.Close()
	}
	time.AfterFunc(2*lateness, func() { _ = c.Conn.Close() })
	return nil
}

// The second owner's request arrives once the first one's lock is gone: it is not granted.
func TestTheSecondOwnerIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := bubble.Masters(t, 1)
		n := bubble.Nodes(t, masters, func(_ int, c net.Conn) net.Conn { return &lateConn{Conn: c} }, node.WithConns(1))[0]
		testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
		name := scripts.TrialName("late")
		owners := uint64(0)
		newOwner := func() scripts.Owner { owners++; return scripts.NewOwner("locker", owners) }
		if _, err := trial.Lock(t.Context(), n, scripts.NewList(n.Name()), name, newOwner, true); err == nil {
			t.Fatal("the second owner was refused in time")
		}
		for over := time.Now().Add(2 * lateness); time.Now().Before(over); time.Sleep(n.Timeout() / 10) {
			synctest.Wait()
			if slices.Contains(masters[0].Keys(), name.String()) {
				t.Fatalf("the second owner holds the name: %s", masters[0].Keys())
			}
		}
	})
}
