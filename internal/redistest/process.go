package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startBound  = 30 * time.Second // from fork to the reply to PING
	pingBound   = time.Second
	pingEvery   = 10 * time.Millisecond
	tailBytes   = 2 << 10
	logFileName = "server.log"
)

// process is a redis-server that runs as a child of this process.
type process struct {
	path    string
	args    []string
	env     []string // added to this process' own
	addr    string
	dir     string
	starter *starter

	cmd    *exec.Cmd     // nil before the first life
	exited chan struct{} // closed when cmd has been waited for
}

func newProcess(path, addr string, extra, env []string, starter *starter) (*process, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorumlock-master-"+port+"-")
	if err != nil {
		return nil, err
	}
	var args []string
	if len(extra) > 0 && !strings.HasPrefix(extra[0], "-") { // a configuration file, which has to come first
		args, extra = extra[:1:1], extra[1:]
	}
	args = append(args,
		"--port", port,
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--protected-mode", "yes",
		"--dir", dir,
		"--daemonize", "no",
		"--loglevel", "warning")
	args = append(args, extra...)
	return &process{path: path, args: args, env: env, addr: addr, dir: dir, starter: starter}, nil
}

func (p *process) start() error {
	if p.running() {
		return errRunning
	}
	// Truncated: an "Address already in use" of an earlier life must not count.
	log, err := os.Create(filepath.Join(p.dir, logFileName))
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := p.starter.start(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited

	err = p.awaitPong()
	if err != nil && p.running() {
		err = errors.Join(err, p.kill())
	}
	return err
}

// awaitPong returns when the server answers PING, has ended or takes too long. A server that loads
// its append-only file already listens but answers with an error.
func (p *process) awaitPong() error {
	late := time.NewTimer(startBound)
	defer late.Stop()
	again := time.NewTicker(pingEvery)
	defer again.Stop()
	for {
		_, err := Do(p.addr, pingBound, "PING")
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-p.exited:
			tail := p.logTail()
			if strings.Contains(tail, "Address already in use") {
				return fmt.Errorf("%w: %s", errAddressTaken, tail)
			}
			return fmt.Errorf("redis-server ended before it answered (%s): %s", p.cmd.ProcessState, tail)
		case <-late.C:
			return fmt.Errorf("no reply to PING within %v (%w): %s", startBound, err, p.logTail())
		}
	}
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) kill() error {
	if !p.running() {
		return p.notRunning()
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

func (p *process) freeze() error { return p.signal(freezeSignal) }
func (p *process) thaw() error   { return p.signal(thawSignal) }

func (p *process) signal(signal syscall.Signal) error {
	if !p.running() {
		return p.notRunning()
	}
	return p.cmd.Process.Signal(signal)
}

func (p *process) notRunning() error {
	if p.cmd == nil {
		return errNotRunning
	}
	return fmt.Errorf("%w (%s): %s", errNotRunning, p.cmd.ProcessState, p.logTail())
}

func (p *process) remove() error { return os.RemoveAll(p.dir) }

// logTail returns the end of the server's output, for an error's text.
func (p *process) logTail() string {
	written, err := os.ReadFile(filepath.Join(p.dir, logFileName))
	if err != nil {
		return "no output: " + err.Error()
	}
	if len(written) > tailBytes {
		written = written[len(written)-tailBytes:]
	}
	return strings.TrimSpace(string(written))
}
