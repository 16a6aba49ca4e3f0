//go:build !linux

package redistest

import (
	"io"
	"net"
)

// ClaimPort returns a port of 127.0.0.1 that was free a moment ago. Nothing reserves it: another
// process may take it before a start.
func ClaimPort() (port int, held io.Closer, err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	port = listener.Addr().(*net.TCPAddr).Port
	return port, unheld{}, listener.Close()
}

type unheld struct{}

func (unheld) Close() error { return nil }
