//go:build unix

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// name is the first argument of a process that waits to become a program.
	name = "quorumlock-launch"
	// socketNumber is the lowest descriptor for its socket to this process. Lower ones are for descriptors that a
	// shell or systemd passes to the program.
	socketNumber = 64
)

// Process is a process that waits to become a program.
type Process struct {
	PID    int
	socket *os.File // to the process: a byte means Go; no answer means that it became the program
}

// Start starts a process that waits to become the program at path. It inherits the environment and this process's open
// files. No other process may be started meanwhile: it would inherit the socket. The caller waits for the process.
func Start(path string, args, env []string, attributes *syscall.SysProcAttr) (*Process, error) {
	self, err := ourselves()
	if err != nil {
		return nil, err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	for _, end := range ends {
		unix.CloseOnExec(end)
	}
	defer unix.Close(ends[1])
	p := &Process{socket: os.NewFile(uintptr(ends[0]), "socket")}
	inherited, err := unix.FcntlInt(uintptr(ends[1]), unix.F_DUPFD, socketNumber)
	if errors.Is(err, unix.EINVAL) { // ulimit -n is lower: any number that is free
		inherited, err = unix.FcntlInt(uintptr(ends[1]), unix.F_DUPFD, 3)
	}
	if err != nil {
		p.socket.Close()
		return nil, err
	}
	defer unix.Close(inherited)
	p.PID, err = syscall.ForkExec(self, append([]string{name, strconv.Itoa(inherited), path}, args...), &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2}, Sys: attributes,
	})
	if err != nil {
		p.socket.Close()
		return nil, fmt.Errorf("%s: %w", self, err)
	}
	return p, nil
}

// ourselves returns the path of this process's program.
func ourselves() (string, error) {
	const running = "/proc/self/exe" // also after an upgrade has replaced the file
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	if path, err := os.Executable(); err == nil {
		return path, nil
	}
	return exec.LookPath(os.Args[0])
}

// Go tells the process to become the program. If it cannot, it ends, and the error says why. A process that has
// already ended is no error here.
func (p *Process) Go() error {
	defer p.socket.Close()
	if _, err := p.socket.Write([]byte{0}); err != nil {
		return nil
	}
	number := make([]byte, 16)
	n, _ := p.socket.Read(number)
	if code, err := strconv.Atoi(string(number[:n])); err == nil {
		return syscall.Errno(code)
	}
	return nil
}

// init keeps a process that waits on its first thread: Linux ends the program with its parent only if this thread becomes
// the program.
func init() {
	if os.Args[0] == name {
		runtime.LockOSThread()
	}
}

// A program that uses Start calls Become first. In a process that Start has started, Become does not return: the
// process becomes the program, or ends.
func Become() {
	if len(os.Args) < 4 || os.Args[0] != name {
		return
	}
	inherited, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return
	}
	unix.CloseOnExec(inherited)
	socket := os.NewFile(uintptr(inherited), "socket")
	if n, _ := socket.Read(make([]byte, 1)); n == 0 {
		os.Exit(1) // the parent is dead
	}
	if code, ok := syscall.Exec(os.Args[2], os.Args[3:], environment()).(syscall.Errno); ok {
		_, _ = socket.WriteString(strconv.Itoa(int(code)))
	}
	os.Exit(1)
}

// environment returns the environment, with this process's number where systemd wrote the parent's: a program ignores
// sockets and a watchdog that are meant for another process.
func environment() []string {
	parent, own := strconv.Itoa(os.Getppid()), strconv.Itoa(os.Getpid())
	env := os.Environ()
	if os.Getenv("LISTEN_PID") == parent { // which systemd may name in a second way
		env = slices.DeleteFunc(env, func(variable string) bool { return strings.HasPrefix(variable, "LISTEN_PIDFDID=") })
	}
	for i, variable := range env {
		if name, value, _ := strings.Cut(variable, "="); value == parent && (name == "LISTEN_PID" || name == "WATCHDOG_PID") {
			env[i] = name + "=" + own
		}
	}
	return env
}
