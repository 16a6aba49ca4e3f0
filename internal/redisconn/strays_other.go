//go:build !unix || aix

package redisconn

import "net"

// isReadable is not known on this system.
func isReadable(net.Conn) bool { return false }
