package fakeredis

import "net"

// Connection is a connection to a master that no goroutine serves: its owner decides when the master
// gets to each command. So a simulation can give a master a processor of its own, which takes its time,
// and serve many thousands of clients.
type Connection struct{ s *session }

// Connect returns a connection to a running process, or nil. The master calls push with each message
// of a channel, while it is locked: push must not block, nor call the master. It must not keep the
// bytes. Remote names the client.
func (m *Master) Connect(remote net.Addr, push func([]byte)) *Connection {
	s := newSession(m, unserved{remote: remote})
	s.push = push
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up {
		return nil
	}
	m.sessions[s] = struct{}{}
	return &Connection{s}
}

// Run carries out one command, and appends its reply. alive is false once the process has ended.
func (c *Connection) Run(command []string, to []byte) (replies []byte, alive bool) {
	return c.s.master.execute(c.s, command, to)
}

// Close ends the connection, with its subscriptions.
func (c *Connection) Close() {
	m := c.s.master
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(c.s)
	c.s.end()
}

// unserved is the net.Conn of a session that reads and writes nothing.
type unserved struct {
	net.Conn
	remote net.Addr
}

func (u unserved) RemoteAddr() net.Addr { return u.remote }
func (u unserved) LocalAddr() net.Addr  { return u.remote }
func (u unserved) Close() error         { return nil }
