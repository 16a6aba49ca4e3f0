package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestServersDieWithAKilledParent(t *testing.T) {
	testkit.Real(t, 1) // skips without redis-server
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanVariable+"=1", "TMPDIR="+t.TempDir())
	// The parent ends with its input: should the kill below fail, nothing stays behind.
	input := testkit.Got(parent.StdinPipe())(t)
	defer input.Close()
	output := testkit.Got(parent.StdoutPipe())(t)
	testkit.Must(t, parent.Start())
	line, readErr := bufio.NewReader(output).ReadString('\n')
	url := strings.TrimSpace(line)

	answers := func() bool {
		conn, err := redis.DialURL(url)
		if err != nil {
			return false
		}
		defer conn.Close()
		_, err = conn.Do("PING")
		return err == nil
	}
	answered := readErr == nil && answers()
	testkit.Must(t, parent.Process.Kill())
	_ = parent.Wait() // "signal: killed"
	testkit.Require(t, answered, "no server at %q while its parent lived (%v)", url, readErr)
	testkit.Eventually(t, "the orphaned server gone", func() bool { return !answers() })
}

// The death signal fires when the thread that forked ends, not the process.
func TestServersOutliveTheThreadsOfTheirParent(t *testing.T) {
	fleet := testkit.Real(t, 8)
	const threads = 64
	var meet, gone sync.WaitGroup
	meet.Add(threads)
	for range threads {
		gone.Go(func() {
			runtime.LockOSThread() // never unlocked: its thread ends with the goroutine
			meet.Done()
			meet.Wait() // so each has a thread of its own, and old threads are used up
		})
	}
	gone.Wait()
	testkit.Eventually(t, "the threads ended", func() bool {
		tasks := testkit.Got(os.ReadDir("/proc/self/task"))(t)
		return len(tasks) < threads
	})
	for _, m := range fleet.Masters {
		testkit.Do(t, m, "PING")
	}
}

// A Ctrl-C signals the terminal's foreground process group.
func TestServersAreInAProcessGroupOfTheirOwn(t *testing.T) {
	m := testkit.Real(t, 1).Masters[0]
	var pid int
	testkit.Got(fmt.Sscan(testkit.Info(t, m, "server", "process_id"), &pid))(t)
	group := testkit.Got(syscall.Getpgid(pid))(t)
	testkit.Check(t, group != syscall.Getpgrp(), "the server is in the test's process group")
}

// Otherwise a client that redials could take the port of a killed master, which then could not come
// back.
func TestNoConnectionTakesThePortOfAKilledMaster(t *testing.T) {
	fleet := standin.ForTest(t, 2)
	killed, other := fleet.Masters[0], fleet.Masters[1]
	testkit.Must(t, killed.Kill())

	from := testkit.Got(net.ResolveTCPAddr("tcp4", killed.Addr()))(t)
	dialer := net.Dialer{LocalAddr: from}
	conn, err := dialer.Dial("tcp4", other.Addr())
	if !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			conn.Close()
		}
		t.Errorf("a connection from %s: %v, want EADDRINUSE", from, err)
	}
	testkit.Must(t, killed.Start())
	testkit.Do(t, killed, "PING")
}
