// Package etcd starts a cluster of etcd on this machine. Its members run under a process of their own, the
// keeper, which ends with the one that started it, and then ends them and removes their data.
package etcd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/child"
)

// ErrNone is in the error of [Start] if there is no etcd on PATH.
var ErrNone = errors.New("there is no etcd on PATH: install the package etcd-server (make etcd)")

const (
	// healthyBound is for how long a busy machine may take until all members are healthy.
	healthyBound = time.Minute
	// endBound is for how long it may take to start the keeper, or to end the members.
	endBound = time.Minute
)

// Cluster is a running cluster.
type Cluster struct {
	Endpoints []string // http://host:port of each member, for clients
	Version   string   // as "3.4.23"
	Dir       string   // of the members' data
	Data      string   // where that is, for people
	pids      []int

	cmd  *exec.Cmd
	said *child.Output
	in   io.WriteCloser
}

// variable marks a process as the keeper, and holds its task.
const variable = "QUORUMLOCK_BENCH_ETCD"

// task is what the keeper is to do.
type task struct {
	Program string
	Members int
}

// started is what the keeper says when all members are healthy.
type started struct {
	Endpoints []string
	PIDs      []int
	Dir, Data string
}

// Start starts this program again as the keeper: its main must call [Keep] if [IsKeeper]. It returns when each
// member says that it is healthy, so there is a leader.
func Start(ctx context.Context, members int) (*Cluster, error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	c := &Cluster{said: &child.Output{}}
	if c.Version, err = versionOf(ctx, program); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(task{program, members})
	if err != nil {
		return nil, err
	}
	// Not with the context: a keeper that is killed cannot remove the data.
	c.cmd = exec.Command(self)
	c.cmd.Env = append(os.Environ(), variable+"="+string(text))
	c.cmd.Stderr = c.said
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, c.in.Close())
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	var s started
	err = child.Await(c.cmd, c.said, healthyBound+endBound, "etcd: the cluster starts", func() error {
		line, err := bufio.NewReader(c.said.Tee(out)).ReadBytes('\n')
		if err != nil {
			return err
		}
		return json.Unmarshal(line, &s)
	})
	c.Endpoints, c.Dir, c.Data, c.pids = s.Endpoints, s.Dir, s.Data, s.PIDs
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// versionOf asks the program.
func versionOf(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("etcd: %s --version: %w", program, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	version, found := strings.CutPrefix(line, "etcd Version: ")
	if !found {
		return "", fmt.Errorf("etcd: %s --version: no version in %q", program, line)
	}
	return version, nil
}

// CPU is the processor time of all members so far.
func (c *Cluster) CPU() (total time.Duration, err error) {
	for _, pid := range c.pids {
		var used unix.Timespec
		if err := unix.ClockGettime(processClock(pid), &used); err != nil {
			return 0, fmt.Errorf("etcd: the processor time of process %d: %w", pid, err)
		}
		total += time.Duration(used.Nano())
	}
	return total, nil
}

// processClock is the clock of a process' processor time, as clock_getcpuclockid(3) numbers it on Linux. The
// times of /proc are in steps of 10 ms, too coarse for a slice.
func processClock(pid int) int32 {
	const ofTheProcess = 2
	return int32(^pid)<<3 | ofTheProcess
}

// Close ends the members and removes their data.
func (c *Cluster) Close() error {
	closed := c.in.Close()
	return errors.Join(child.Await(c.cmd, c.said, endBound, "etcd: the cluster ends", c.cmd.Wait), closed)
}
