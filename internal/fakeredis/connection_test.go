package fakeredis_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// clientAddr is the address of a client without a network.
type clientAddr string

func (clientAddr) Network() string  { return "test" }
func (a clientAddr) String() string { return string(a) }

var _ net.Addr = clientAddr("")

func TestConnectionsWithoutAGoroutine(t *testing.T) {
	m := fakeredis.New(time.Now, 1)
	defer m.Stop()
	var heard []string
	listener := m.Connect(clientAddr("listener"), func(b []byte) { heard = append(heard, string(b)) })
	speaker := m.Connect(clientAddr("speaker"), func([]byte) {})
	run := func(c *fakeredis.Connection, want string, command ...string) {
		t.Helper()
		got, alive := c.Run(command, []byte("before "))
		if text, ok := strings.CutPrefix(string(got), "before "); !alive || !ok || text != want {
			t.Errorf("%v: %q (alive: %v), want %q behind what was there", command, got, alive, want)
		}
	}
	run(speaker, ":0\r\n", "PUBLISH", "news", "0")
	run(listener, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", "SUBSCRIBE", "news")
	run(speaker, ":1\r\n", "PUBLISH", "news", "1")
	if want := "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\n1\r\n"; len(heard) != 1 || heard[0] != want {
		t.Errorf("heard %q, want %q", heard, want)
	}
	if n := m.Listening("news"); n != 1 {
		t.Errorf("%d connections listen, want 1", n)
	}
	listener.Close()
	run(speaker, ":0\r\n", "PUBLISH", "news", "2")

	m.Crash(fakeredis.Nothing)
	if _, alive := speaker.Run([]string{"PING"}, nil); alive {
		t.Error("a connection outlives the process")
	}
	if m.Connect(clientAddr("late"), nil) != nil {
		t.Error("a process that has ended accepts a connection")
	}
}
