package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	healthEvery = 20 * time.Millisecond
	healthBound = 2 * time.Second // of one question
)

// IsKeeper reports whether [Start] of another process started this one. Its main must then call [Keep] before
// anything else, and exit.
func IsKeeper() bool { return os.Getenv(variable) != "" }

// Keep runs the members until stdin closes, and returns the exit code.
func Keep() int {
	// A terminal's Ctrl-C reaches every process of the group. This one ends when its parent has ended the clients.
	signal.Ignore(os.Interrupt)
	if err := keep(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

func keep(in io.Reader, out io.Writer) (err error) {
	// The members die with the thread that forks them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &t); err != nil {
		return err
	}
	parent, data := dataDirectory()
	dir, err := os.MkdirTemp(parent, "quorumlock-etcd-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	members, err := plan(t.Members, dir)
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range members {
			err = errors.Join(err, m.end())
		}
	}()
	s := started{Dir: dir, Data: data}
	for _, m := range members {
		if err := m.start(t.Program, members); err != nil {
			return err
		}
		s.Endpoints, s.PIDs = append(s.Endpoints, m.client), append(s.PIDs, m.cmd.Process.Pid)
	}
	closed := make(chan struct{})
	go func() { // the parent keeps the pipe open as long as it lives
		defer close(closed)
		_, _ = io.Copy(io.Discard, in)
	}()
	late := time.NewTimer(healthyBound)
	defer late.Stop()
	for _, m := range members {
		if err := m.awaitHealth(late.C, closed); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(s); err != nil {
		return err
	}
	<-closed
	return nil
}

// member is one etcd.
type member struct {
	name         string
	dir          string
	client, peer string      // URLs
	held         []io.Closer // reserve its ports
	cmd          *exec.Cmd
	exited       chan struct{}
}

// plan gives each member its ports.
func plan(n int, dir string) (members []*member, err error) {
	for i := range n {
		m := &member{name: fmt.Sprintf("m%d", i), exited: make(chan struct{})}
		m.dir = filepath.Join(dir, m.name)
		members = append(members, m)
		for _, url := range []*string{&m.client, &m.peer} {
			port, held, err := redistest.ClaimPort()
			if err != nil {
				for _, m := range members {
					err = errors.Join(err, m.end())
				}
				return nil, err
			}
			*url, m.held = fmt.Sprintf("http://127.0.0.1:%d", port), append(m.held, held)
		}
	}
	return members, nil
}

func (m *member) start(program string, all []*member) error {
	var cluster []string
	for _, other := range all {
		cluster = append(cluster, other.name+"="+other.peer)
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return err
	}
	log, err := os.Create(m.log())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, "--name", m.name, "--data-dir", filepath.Join(m.dir, "data"),
		"--listen-client-urls", m.client, "--advertise-client-urls", m.client,
		"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer,
		"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", filepath.Base(filepath.Dir(m.dir)),
		"--logger", "zap", "--log-level", "error")
	cmd.Env = append(environment(), "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH) // it asks for this on some
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, childAttributes()
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd = cmd
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(m.exited)
	}()
	return nil
}

// environment is this process' own, without settings of etcd.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
}

// awaitHealth returns when the member answers and knows a leader.
func (m *member) awaitHealth(late <-chan time.Time, closed <-chan struct{}) error {
	client := &http.Client{Timeout: healthBound, Transport: &http.Transport{DisableKeepAlives: true}}
	again := time.NewTicker(healthEvery)
	defer again.Stop()
	for {
		reply, err := client.Get(m.client + "/health")
		if err == nil {
			reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-again.C:
		case <-m.exited:
			return fmt.Errorf("%s ended before it was healthy (%v): %s", m.name, m.cmd.ProcessState, m.tail())
		case <-late:
			return fmt.Errorf("%s was not healthy within %v: %s", m.name, healthyBound, m.tail())
		case <-closed:
			return fmt.Errorf("the parent went before %s was healthy", m.name)
		}
	}
}

// end ends the member at once: its data are of no use to anybody.
func (m *member) end() error {
	var errs []error
	if m.cmd != nil {
		if err := m.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		<-m.exited
	}
	for _, held := range m.held {
		errs = append(errs, held.Close())
	}
	return errors.Join(errs...)
}

func (m *member) log() string { return filepath.Join(m.dir, "log") }

// tail is the end of the member's output, for an error.
func (m *member) tail() string {
	const most = 2 << 10
	text, err := os.ReadFile(m.log())
	if err != nil {
		return "no output: " + err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
