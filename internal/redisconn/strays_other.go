//go:build !unix || aix

package redisconn

import "net"

// readable knows nothing on this system.
func readable(net.Conn) func() bool { return func() bool { return false } }
