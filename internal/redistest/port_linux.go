package redistest

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ClaimPort returns a free port of 127.0.0.1 and a socket that is bound to it but does not listen.
// While that socket is open, the kernel assigns the port to no other socket. Otherwise a client's
// outgoing connection could take the port of a killed master, and the master could not come back to
// its address. A server that binds with SO_REUSEADDR, as redis-server and Go do, can still bind it.
func ClaimPort() (port int, held io.Closer, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "held port")
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, nil, os.NewSyscallError("bind", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, nil, os.NewSyscallError("getsockname", err)
	}
	address, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		return 0, nil, fmt.Errorf("bound to a %T", bound)
	}
	return address.Port, file, nil
}
