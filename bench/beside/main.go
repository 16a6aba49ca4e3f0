// Beside locks and unlocks two names that other processes lock, too, and prints events of package history. A test builds
// it from its own tree and from an earlier revision, so it uses nothing but the public API of both.
//
// Usage: beside CLIENT FOR URL...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"
	"slices"
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
	log.SetFlags(0)
	client, err := strconv.Atoi(os.Args[1])
	must(err)
	length, err := time.ParseDuration(os.Args[2])
	must(err)
	locker, err := redlock.Open(os.Args[3:], quorum.WithLease(lease), quorum.WithNodeOptions(node.WithMaxLease(lease)),
		quorum.WithLogger(slog.New(slog.DiscardHandler)))
	must(err)
	print := func(events []event) {
		for _, e := range events {
			must(json.NewEncoder(os.Stdout).Encode(e))
		}
	}
	print(hold(locker, client, names[0])) // connections are made, and quarantines over
	began := time.Now()
	events := make([][]event, len(names)) // printed at the end: a full pipe must not keep it from contending
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			for time.Since(began) < length {
				events[i] = append(events[i], hold(locker, client, name)...)
			}
		})
	}
	all.Wait()
	print(slices.Concat(events...))
	must(locker.Close())
}

// hold locks, and unlocks after a moment, in which another holder would be seen.
func hold(locker *quorum.Locker, client int, name string) []event {
	e := event{Client: client, Name: name, Kind: "acquired", Call: now()}
	lock, err := locker.Lock(context.Background(), name)
	must(err)
	e.Owner, e.Token, e.Return = lock.Owner(), lock.Token(), now()
	time.Sleep(time.Millisecond)
	e.Deadline = now() + int64(time.Until(lock.Deadline()))
	released := e
	released.Kind, released.Call = "released", now()
	if err := lock.Unlock(context.Background()); !errors.Is(err, quorum.ErrLost) { // the machine stood still for a lease
		must(err)
	}
	released.Return = now()
	return []event{e, released}
}

// now reads a clock that all processes of the machine share, and that is never set.
func now() int64 {
	var ts unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

func must(err error) {
	if err != nil {
		log.Fatal("beside: ", err)
	}
}
