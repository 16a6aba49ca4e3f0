package scripts_test

import (
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// The server of the simulations must reply like a real one.
func TestVectorsOnFake(t *testing.T) {
	master := fakeredis.New(time.Now, 1)
	t.Cleanup(master.Stop)
	runVectors(t, piped{master, pipeTo(t, master)})
}

// piped is a fake master behind in-memory connections.
type piped struct {
	master *fakeredis.Master
	conn   redis.Conn
}

func pipeTo(t *testing.T, master *fakeredis.Master) redis.Conn {
	client, server := net.Pipe()
	go master.Serve(server)
	conn := redis.NewConn(client, 5*time.Second, 5*time.Second)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (p piped) Do(args ...any) (any, error) { return p.conn.Do(args[0].(string), args[1:]...) }

func (p piped) Listen(during func()) ([]message, error) {
	client, server := net.Pipe()
	go p.master.Serve(server)
	return listen(redis.NewConn(client, 5*time.Second, 5*time.Second), p, during)
}
