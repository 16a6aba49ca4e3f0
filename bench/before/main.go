// Before locks and unlocks names as fast as its callers can, when told to. The bench builds it from
// its own tree and from an earlier revision: the versions of one module cannot be in one program.
// Hence it uses nothing but the public API of both.
//
// Usage: before CALLERS URL... It prints a line when it is ready, then runs once for each duration
// that it reads on a line, and answers each with a line of JSON.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const nameCount = 4096

// answer is the result of one run.
type answer struct {
	Pairs   int
	Failed  int
	Failure string // one of them
	Elapsed time.Duration
	CPU     time.Duration // of this process
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "before:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) < 2 {
		return errors.New("want CALLERS URL")
	}
	callers, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	locker, err := redlock.Open(args[1:], quorum.WithNodeOptions(node.WithoutQuarantine()),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	if err := pair(locker, 0); err != nil { // connections are made
		return err
	}
	fmt.Fprintln(out, `"ready"`)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		length, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(load(locker, callers, length)); err != nil {
			return err
		}
	}
	return nil
}

// load lets the callers lock and unlock for that long.
func load(locker *quorum.Locker, callers int, length time.Duration) (a answer) {
	parts := make([]answer, callers)
	began, used := time.Now(), cpu()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; time.Since(began) < length; i += callers {
				if err := pair(locker, i); err == nil {
					parts[c].Pairs++
				} else {
					parts[c].Failed++
					parts[c].Failure = err.Error()
				}
			}
		})
	}
	all.Wait()
	a.Elapsed, a.CPU = time.Since(began), cpu()-used
	for _, part := range parts {
		a.Pairs += part.Pairs
		a.Failed += part.Failed
		a.Failure = cmp.Or(a.Failure, part.Failure)
	}
	return a
}

func pair(locker *quorum.Locker, i int) error {
	lock, err := locker.Lock(context.Background(), fmt.Sprintf("bench:before:%d", i%nameCount))
	if err != nil {
		return err
	}
	return lock.Unlock(context.Background())
}

func cpu() time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano())
}
