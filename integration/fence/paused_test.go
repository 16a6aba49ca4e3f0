//go:build unix

package fence_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// shortLease is that of a holder that will be stopped. A try that the machine stalls for is made
	// again with twice the lease.
	shortLease = 500 * time.Millisecond
	// longLease is that of the next holder, which must keep its lock.
	longLease = 30 * time.Second
	account   = 42
)

// plan is what a holder process does, and where it is paused.
type plan struct {
	Masters []string
	Name    string // what it locks
	Target  target
	By      order
	Step    string // it is paused before this step ...
	Nth     int    // ... of that number, from 1
	Lease   time.Duration
}

// outcome is what a holder process tells at its end.
type outcome struct {
	Fenced       bool
	Err          string
	Acknowledged []write
	Lost         bool // the lock, by the holder's own clock
}

func openLocker(masters []string, lease time.Duration) (*quorum.Locker, error) {
	return redlock.Open(masters, quorum.WithLease(lease),
		quorum.WithNodeOptions(node.WithTimeout(lease/2), node.WithoutQuarantine()))
}

func openTarget(to target, step func(string)) (session, error) {
	if to.Kind == "redis" {
		return openRedis(to, step)
	}
	return openSQL(to, step)
}

// holderProcess locks, works, and waits for a line of input in the middle of its work, right after
// it has found its lock valid.
func holderProcess() int {
	var p plan
	in := bufio.NewReader(os.Stdin)
	tell := func(what any) int {
		_ = json.NewEncoder(os.Stdout).Encode(what)
		return 0
	}
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p)
	}
	if err != nil {
		return tell(outcome{Err: err.Error()})
	}
	locker, err := openLocker(p.Masters, p.Lease)
	if err != nil {
		return tell(outcome{Err: err.Error()})
	}
	defer locker.Close()
	held, err := locker.Lock(context.Background(), p.Name)
	if err != nil {
		return tell(outcome{Err: err.Error()})
	}
	seen := 0
	s, err := openTarget(p.Target, func(next string) {
		if next != p.Step {
			return
		}
		if seen++; seen == p.Nth {
			tell(held.Valid())
			_, _ = in.ReadBytes('\n')
		}
	})
	if err != nil {
		return tell(outcome{Err: err.Error()})
	}
	defer s.close()
	// Not with the lock's context: a process that is paused behind its last check of it does the same.
	acknowledged, err := s.work(context.Background(), account, held.Token(), p.By, 1)
	told := outcome{Acknowledged: acknowledged, Fenced: errors.Is(err, fence.ErrFenced)}
	if err != nil {
		told.Err = err.Error()
	}
	told.Lost = errors.Is(held.Unlock(context.Background()), quorum.ErrLost)
	return tell(told)
}

// holder is a holder process.
type holder struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.Closer
	printed *child.Output
	orders  *json.Encoder
	said    *json.Decoder
}

// startHolder starts a holder process, and stops it (SIGSTOP) with a valid lock and its work half
// done. A holder whose lease the machine slept through is killed, and another one started.
func startHolder(t *testing.T, p plan) *holder {
	t.Helper()
	for p.Lease = shortLease; ; p.Lease *= 2 {
		h := runHolder(t, p)
		var said json.RawMessage
		must(t, child.Await(h.cmd, h.printed, patience, "the holder says whether it holds", func() error { return h.said.Decode(&said) }))
		must(t, h.cmd.Process.Signal(syscall.SIGSTOP))
		if string(said) == "true" {
			return h
		}
		h.kill()
		if p.Lease > longLease {
			t.Fatalf("with a lease of %v the holder said %s, want a valid lock", p.Lease, said)
		}
		t.Logf("with a lease of %v the holder said %s", p.Lease, said)
	}
}

func runHolder(t *testing.T, p plan) *holder {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"=holder")
	printed := &child.Output{}
	cmd.Stderr = printed
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	h := &holder{t, cmd, in, printed, json.NewEncoder(in), json.NewDecoder(printed.Tee(out))}
	t.Cleanup(h.kill)
	must(t, h.orders.Encode(p))
	return h
}

// kill ends the holder, in whatever state.
func (h *holder) kill() {
	h.in.Close()
	h.cmd.Process.Kill()
	h.cmd.Wait()
}

// resume lets the holder go on to its end.
func (h *holder) resume() outcome {
	h.t.Helper()
	must(h.t, h.orders.Encode("go on"))
	must(h.t, h.cmd.Process.Signal(syscall.SIGCONT))
	var told outcome
	must(h.t, child.Await(h.cmd, h.printed, patience, "the holder tells its end", func() error { return h.said.Decode(&told) }))
	if told.Err != "" && !told.Fenced {
		h.t.Fatalf("the holder failed: %s", told.Err)
	}
	if !told.Lost {
		h.t.Error("the holder was stopped for longer than its lease, and its lock is not lost")
	}
	return told
}

// late is a schedule in which a paused holder writes late.
type late struct {
	name  string
	after string // the next holder is before this step when the paused one goes on; "" for its end
	nth   int
	by    order
	bad   bool // a control: it must lose an update
}

// A holder process is stopped for longer than its lease, with a write in hand that it has checked its
// lock for. Another process gets the lock, and the first one goes on.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	schedules := []late{
		{"after the next holder's write", "", 0, stampFirst, false},
		{"between the next holder's read and its write", "begin", 2, stampFirst, false},
		{"after the next holder's write", "", 0, stampOnlyRead, true},
	}
	masters := fleet(t, 3)
	// TestInterleavings and TestWrongOrdersLoseUpdates have the other guards and orders: that the holder is a
	// process makes no difference to them.
	for _, name := range []string{
		"Redis", "PostgreSQL, lib/pq", "SQLite, write-ahead log", "MariaDB, repeatable read",
	} {
		fresh := resources()[name]
		for _, c := range schedules {
			t.Run(fmt.Sprintf("%s/%s/%s", name, c.name, c.by), func(t *testing.T) {
				t.Parallel()
				r := fresh(t)
				prepared(t, r, account)
				paused := startHolder(t, plan{masters.URLs(), t.Name(), r.connect(), c.by, "begin", 2, 0}) // at its write
				locker, err := openLocker(masters.URLs(), longLease)
				must(t, err)
				defer locker.Close()
				ctx, cancel := context.WithTimeout(context.Background(), soon)
				defer cancel()
				next, err := locker.Lock(ctx, t.Name())
				must(t, err)

				var told *outcome
				seen := 0
				s := r.session(t, func(step string) {
					if step != c.after {
						return
					}
					if seen++; seen == c.nth {
						told = new(paused.resume())
					}
				})
				defer s.close()
				acknowledged, err := s.work(ctx, account, next.Token(), c.by, 2)
				must(t, err)
				if told == nil {
					told = new(paused.resume())
				}
				must(t, next.Unlock(ctx))

				balance, log := r.state(t, account)
				err = judge(append(told.Acknowledged, acknowledged...), balance, log)
				switch {
				case !c.bad && err != nil:
					t.Error(err)
				case !c.bad && !told.Fenced:
					t.Errorf("the late write was accepted: %v", log)
				case c.bad && err == nil:
					t.Errorf("no harm done: %v, and the holder was told %+v", log, *told)
				}
				t.Logf("the late write: fenced %v, %s; %v", told.Fenced, told.Err, log)
			})
		}
	}
}

// A process that is paused with its transaction open holds up the next holder, and then both writes
// count. A step of Redis is never open: there the late one is refused.
func TestPausedInATransaction(t *testing.T) {
	t.Parallel()
	masters := fleet(t, 3)
	for _, c := range []struct {
		name, step string
		nth        int
		waits      bool
	}{
		{"PostgreSQL, lib/pq", "write", 1, true},
		{"MariaDB, repeatable read", "write", 1, true},
		{"SQLite, write-ahead log", "write", 1, true},
		{"Redis", "EXEC", 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := resources()[c.name](t)
			prepared(t, r, account)
			paused := startHolder(t, plan{masters.URLs(), t.Name(), r.connect(), stampFirst, c.step, c.nth, 0})
			locker, err := openLocker(masters.URLs(), longLease)
			must(t, err)
			defer locker.Close()
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			next, err := locker.Lock(ctx, t.Name())
			must(t, err)

			s := r.session(t, func(string) {})
			defer s.close()
			try := ctx
			if c.waits {
				brief, cancel := context.WithTimeout(ctx, shortLease/2)
				defer cancel()
				try = brief
			}
			acknowledged, err := s.work(try, account, next.Token(), stampFirst, 2)
			if waited := err != nil; waited != c.waits {
				t.Errorf("the next holder's first try: %v", err)
			}
			told := paused.resume()
			ctx, cancel = context.WithTimeout(context.Background(), soon) // the try may have lasted PostgreSQL's lock_timeout
			defer cancel()
			if told.Fenced == c.waits {
				t.Errorf("the paused holder: %+v", told)
			}
			if c.waits {
				again := r.session(t, func(string) {})
				defer again.close()
				acknowledged, err = again.work(ctx, account, next.Token(), stampFirst, 2)
				must(t, err)
			}
			must(t, next.Unlock(ctx))
			balance, log := r.state(t, account)
			if err := judge(append(told.Acknowledged, acknowledged...), balance, log); err != nil {
				t.Error(err)
			}
			if want := map[bool]int{true: opening + 3, false: opening + 2}[c.waits]; balance != want {
				t.Errorf("balance %d, want %d: %v", balance, want, log)
			}
		})
	}
}
