package scripts_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The server of the simulations must reply like a real one.
func TestVectorsOnFake(t *testing.T) {
	master := fakeredis.New(time.Now, 1)
	t.Cleanup(master.Stop)
	runVectors(t, newPiped(t, master))
}

// piped is a fake master behind in-memory connections.
type piped struct {
	master *fakeredis.Master
	conn   redis.Conn
}

func newPiped(t *testing.T, master *fakeredis.Master) piped {
	conn := testkit.Pipe(master.Serve)
	t.Cleanup(func() { conn.Close() })
	return piped{master, conn}
}

func (p piped) Do(args ...any) (any, error) { return p.conn.Do(args[0].(string), args[1:]...) }

func (p piped) Listen(during func()) ([]message, error) {
	return listen(testkit.Pipe(p.master.Serve), p, during)
}
