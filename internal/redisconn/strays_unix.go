//go:build unix && !aix

package redisconn

import (
	"net"
	"syscall"
)

// readable returns a function that reports whether unread bytes have arrived at a socket; false if c has no socket. One
// goroutine at a time may call it. It allocates nothing: a connection calls it for each write.
func readable(c net.Conn) func() bool {
	no := func() bool { return false }
	var socket syscall.Conn
	switch c := c.(type) { // a connection that contains one of these may decrypt what arrives there
	case *net.TCPConn:
		socket = c
	case *net.UnixConn:
		socket = c
	default:
		return no
	}
	raw, _ := socket.SyscallConn() // fails for a nil pointer, which nothing is read from
	var first [1]byte
	var found bool
	peek := func(fd uintptr) {
		n, _, _ := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT) // 0 at the end, -1 for nothing
		found = n > 0
	}
	return func() bool {
		_ = raw.Control(peek)
		return found
	}
}
