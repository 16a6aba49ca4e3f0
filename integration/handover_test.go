package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	reportURL   = "QUORUMLOCK_TEST_REPORT" // where a worker finds the report, in the environment
	reportKey   = "report:7"
	reportToken = "report:7:token"
)

// A web server locks a report, begins it, and hands it over. A worker, another process, goes on with
// it, after the first has ended. What the first writes late is refused, and nobody else gets in.
func TestHandOverToAWorker(t *testing.T) {
	t.Parallel()
	f, store := fleet(t, 3), fleet(t, 1)
	conn, err := redis.DialURL(store.URLs()[0])
	must(t, err)
	defer conn.Close()
	write := func(token uint64, text string) error {
		_, err := fence.StampKey(t.Context(), conn, reportToken, token, fence.Command{Name: "SET", Args: []any{reportKey, text}})
		return err
	}

	web := open(t, f, redlock.Open)
	held := lock(t, web, "report:7")
	must(t, write(held.Token(), "begun"))
	ticket, err := held.HandOver(t.Context())
	must(t, err)
	if held.Valid() || context.Cause(held.Context()) != quorum.ErrHandedOver {
		t.Errorf("the first holder: valid %v, context %v", held.Valid(), context.Cause(held.Context()))
	}
	must(t, web.Close())
	other := open(t, f, redlock.Open)
	if _, err := other.TryLock(t.Context(), "report:7"); !errors.Is(err, quorum.ErrHeld) {
		t.Errorf("between the two: %v", err)
	}

	w := startWorker(t, f.URLs(), store.URLs()[0])
	w.say(ticket)
	var token uint64
	w.hear("the worker has taken over", "token %d\n", &token)
	if token <= held.Token() {
		t.Errorf("the worker has token %d after %d", token, held.Token())
	}
	if err := write(held.Token(), "late"); !errors.Is(err, fence.ErrFenced) {
		t.Errorf("a late write of the first holder: %v", err)
	}
	if _, err := other.TryLock(t.Context(), "report:7"); !errors.Is(err, quorum.ErrHeld) {
		t.Errorf("beside the worker: %v", err)
	}
	if _, err := other.TakeOver(t.Context(), ticket); !errors.Is(err, quorum.ErrLost) {
		t.Errorf("the ticket, once more: %v", err)
	}

	w.say("go on")
	var done string
	w.hear("the worker is done", "%s\n", &done)
	if text, err := redis.String(conn.Do("GET", reportKey)); done != "done" || text != "begun, and done" {
		t.Errorf("the worker says %q, and the report is %q (%v)", done, text, err)
	}
	unlock(t, lock(t, other, "report:7"))
}

// worker is a worker process.
type worker struct {
	t       *testing.T
	cmd     *exec.Cmd
	printed *child.Output
	in      *os.File
	out     *bufio.Reader
}

func startWorker(t *testing.T, masters []string, report string) *worker {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"=worker", holderURLs+"="+strings.Join(masters, " "), reportURL+"="+report)
	w := &worker{t: t, cmd: cmd, printed: &child.Output{}}
	cmd.Stderr = w.printed
	theirs, ours, err := os.Pipe()
	must(t, err)
	cmd.Stdin, w.in = theirs, ours
	out, err := cmd.StdoutPipe()
	must(t, err)
	w.out = bufio.NewReader(w.printed.Tee(out))
	must(t, cmd.Start())
	theirs.Close()
	t.Cleanup(func() {
		ours.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return w
}

func (w *worker) say(line string) {
	w.t.Helper()
	_, err := fmt.Fprintln(w.in, line)
	must(w.t, err)
}

// hear reads a line from the worker.
func (w *worker) hear(what, format string, to any) {
	w.t.Helper()
	must(w.t, child.Await(w.cmd, w.printed, patience, what, func() error {
		_, err := fmt.Fscanf(w.out, format, to)
		return err
	}))
}

// workerProcess reads a ticket, takes the lock over, stamps the report, and finishes it after the next
// line.
func workerProcess() int {
	fail := func(err error) int { fmt.Println("failed:", err); return 1 }
	ctx, in := context.Background(), bufio.NewScanner(os.Stdin)
	locker, err := redlock.Open(strings.Split(os.Getenv(holderURLs), " "),
		quorum.WithNodeOptions(node.WithTimeout(nodeTimeout), node.WithoutQuarantine()))
	if err != nil {
		return fail(err)
	}
	defer locker.Close()
	conn, err := redis.DialURL(os.Getenv(reportURL))
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	in.Scan()
	lock, err := locker.TakeOver(ctx, in.Text())
	if err != nil {
		return fail(err)
	}
	if _, err := fence.StampKey(ctx, conn, reportToken, lock.Token()); err != nil {
		return fail(err)
	}
	fmt.Println("token", lock.Token())
	in.Scan()
	text, err := redis.String(conn.Do("GET", reportKey))
	if err != nil {
		return fail(err)
	}
	_, err = fence.StampKey(ctx, conn, reportToken, lock.Token(), fence.Command{Name: "SET", Args: []any{reportKey, text + ", and done"}})
	if err := errors.Join(err, lock.Unlock(ctx)); err != nil {
		return fail(err)
	}
	fmt.Println("done")
	return 0
}
