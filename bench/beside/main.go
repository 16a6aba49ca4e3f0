// Beside locks and unlocks two names that other processes lock, too, and prints what it held. A test
// builds it from its own tree and from an earlier revision, and judges both together. Hence it uses
// nothing but the public API of both.
//
// Usage: beside CLIENT URL... It prints a line when it has held a lock, then reads how long to go
// on. Each hold is two lines of JSON, events of package history.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// lease is short: new masters grant after one max lease.
const lease = 2 * time.Second

var names = []string{"bench:beside:0", "bench:beside:1"}

// event has the fields of history.Event.
type event struct {
	Client                 int
	Name, Owner, Kind      string
	Token                  uint64
	Call, Return, Deadline int64
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) < 2 {
		return errors.New("want CLIENT URL")
	}
	c := &contender{out: json.NewEncoder(out)}
	if c.client, err = strconv.Atoi(args[0]); err != nil {
		return err
	}
	c.locker, err = redlock.Open(args[1:], quorum.WithLease(lease), quorum.WithNodeOptions(node.WithMaxLease(lease)),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.locker.Close()) }()
	if err := c.hold(names[0]); err != nil { // connections are made, and quarantines over
		return err
	}
	fmt.Fprintln(out, `"ready"`)
	lines := bufio.NewScanner(in)
	lines.Scan()
	length, err := time.ParseDuration(lines.Text())
	if err != nil {
		return err
	}
	return c.contend(length)
}

type contender struct {
	client int
	locker *quorum.Locker
	mu     sync.Mutex
	out    *json.Encoder
}

func (c *contender) contend(length time.Duration) error {
	var all sync.WaitGroup
	failed := make([]error, len(names))
	for i, name := range names {
		all.Go(func() {
			for began := time.Now(); time.Since(began) < length && failed[i] == nil; {
				failed[i] = c.hold(name)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// hold locks, and unlocks after a moment, in which another holder would be seen.
func (c *contender) hold(name string) error {
	called := now()
	lock, err := c.locker.Lock(context.Background(), name)
	if err != nil {
		return err
	}
	e := event{Client: c.client, Name: name, Owner: lock.Owner(), Kind: "acquired", Token: lock.Token(),
		Call: called, Return: now()}
	pause := time.NewTimer(time.Millisecond)
	defer pause.Stop()
	<-pause.C
	e.Deadline = now() + int64(time.Until(lock.Deadline()))
	released := e
	released.Kind, released.Call = "released", now()
	failed := lock.Unlock(context.Background())
	released.Return = now()
	if errors.Is(failed, quorum.ErrLost) { // the machine stood still for a lease
		failed = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(failed, c.out.Encode(e), c.out.Encode(released))
}

// now reads a clock that all processes of the machine share, and that is never set.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}
