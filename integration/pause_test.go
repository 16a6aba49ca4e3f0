//go:build unix

package integration_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/redlock"
)

// A process that was stopped for longer than its lease never takes the lock for held.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	self, err := os.Executable()
	must(t, err)
	holder := exec.Command(self)
	holder.Env = append(os.Environ(), "GOMAXPROCS=1", childRole+"=holder", holderURLs+"="+strings.Join(f.URLs(), " "))
	printed := &child.Output{}
	holder.Stderr = printed
	orders, err := holder.StdinPipe()
	must(t, err)
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	t.Cleanup(func() {
		orders.Close()
		holder.Process.Kill()
		holder.Wait()
	})
	said := bufio.NewScanner(printed.Tee(out))
	say := func(format string, values ...any) {
		t.Helper()
		must(t, child.Await(holder, printed, 3*patience, fmt.Sprintf("the holder says %q", format), func() error {
			said.Scan()
			_, err := fmt.Sscanf(said.Text(), format, values...)
			return err
		}))
	}

	var token uint64
	say("held %d", &token)
	pass(t, 3*holderLease/2) // it renews
	if left := leftOver(t, f.Masters, "job"); len(left) != 3 {
		t.Fatalf("the holder runs, and only %v is left of its lock", left)
	}
	_, err = orders.Write([]byte("\n"))
	must(t, err)
	say("watching")
	pass(t, 30*time.Millisecond) // the child has finished printing by then
	must(t, holder.Process.Signal(syscall.SIGSTOP))
	others := open(t, f, redlock.Open)
	stopped := time.Now()
	next := lock(t, others, "job")
	t.Logf("another got the lock %v after the holder was stopped", time.Since(stopped).Round(time.Millisecond))
	if next.Token() <= token {
		t.Errorf("token %d then %d", token, next.Token())
	}
	pass(t, holderLease/2)
	must(t, holder.Process.Signal(syscall.SIGCONT))

	var valid, lost, unlockSaysLost bool
	var level, microseconds, stalled int
	say("resumed %t %d %d %d %t %t", &valid, &level, &microseconds, &stalled, &lost, &unlockSaysLost)
	t.Logf("the holder's context ended %d µs after it ran again", microseconds)
	if valid || level != 0 {
		t.Errorf("the holder found valid %v and level %d after a pause longer than its lease", valid, level)
	}
	if !lost || !unlockSaysLost {
		t.Errorf("lost %v, and by Unlock %v: want ErrLost", lost, unlockSaysLost)
	}
	if microseconds > 50_000+4*stalled {
		t.Errorf("the holder's context ended %d µs after it ran again; the machine stood still for %d µs", microseconds, stalled)
	}
	levelIs(t, f.Masters, next, 1)
	if !next.Valid() {
		t.Errorf("the holder that came back took the lock from the next one: %v", next.Err())
	}
	unlock(t, next)
}
