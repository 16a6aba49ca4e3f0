package clitest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"golang.org/x/sys/unix"
)

// Console is a process on a terminal of its own.
type Console struct {
	*Process
	Terminal int // the terminal's file descriptor

	keys *os.File
}

// The keys that signal what has the terminal.
const (
	CtrlC = "\x03"
	CtrlZ = "\x1a"
)

// Open starts a shell script on a terminal, with the command as "$0" and the arguments "$1", "$2", ...
func (d *Deployment) Open(t *testing.T, flags, script string, args ...string) *Console {
	t.Helper()
	p := d.Prepare("x", "--")
	p.Path, p.Args = "/bin/sh", append([]string{"sh", flags, script, os.Args[0]}, args...)
	return p.OnTerminal(t)
}

// OnTerminal starts the process on a terminal of its own.
func (p *Process) OnTerminal(t *testing.T) *Console {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	keys := os.NewFile(uintptr(fd), "keys")
	t.Cleanup(func() { keys.Close() })
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	testkit.Must(t, err)
	screen := testkit.Got(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	defer screen.Close()

	p.Stdin, p.Stdout, p.Stderr = screen, screen, screen
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.Shown = make(chan struct{})
	p.Begin(t)
	t.Cleanup(func() { keys.Close() }) // before the wait for its end: it hangs up on all that is left
	go func() {
		defer close(p.Shown)
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			if err != nil {
				return
			}
			_, _ = p.Out.Write([]byte(strings.ReplaceAll(string(buffer[:n]), "\r", "")))
		}
	}()
	return &Console{Process: p, Terminal: fd, keys: keys}
}

func (c *Console) Press(t *testing.T, keys string) {
	t.Helper()
	testkit.Got(c.keys.WriteString(keys))(t)
}
