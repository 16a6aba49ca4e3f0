//go:build unix && !aix

package redisconn

import (
	"net"
	"syscall"
)

// isReadable reports whether unread bytes have arrived at a socket; false if c has no socket.
func isReadable(c net.Conn) (readable bool) {
	var socket syscall.Conn
	switch c := c.(type) { // a connection that contains one of these may decrypt what arrives there
	case *net.TCPConn:
		socket = c
	case *net.UnixConn:
		socket = c
	default:
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var first [1]byte
	_ = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		readable = err == nil && n > 0
	})
	return readable
}
