// Worker locks and unlocks names over the masters whose URLs are its arguments. It is a program, so that another commit's
// can run alongside. Each line of its input says how many callers lock, and for how long: "256 100ms". It answers with a
// line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Answer is what a line measured.
type Answer struct {
	Pairs  int
	Took   time.Duration
	Allocs uint64
}

func main() {
	if err := run(os.Args[1:], os.Stdin, json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(urls []string, in io.Reader, out *json.Encoder) error {
	locker, err := redlock.Open(urls, quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer locker.Close()
	for {
		var callers int
		var text string
		if _, err := fmt.Fscan(in, &callers, &text); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		length, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		a, err := measure(locker, callers, length)
		if err != nil {
			return err
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func measure(locker *quorum.Locker, callers int, length time.Duration) (Answer, error) {
	pairs, errs := make([]int, callers), make([]error, callers)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		name := fmt.Sprint("bench:worker:", c)
		all.Go(func() {
			for time.Since(began) < length && errs[c] == nil {
				errs[c] = pair(locker, name)
				pairs[c]++
			}
		})
	}
	all.Wait()
	a := Answer{Took: time.Since(began)}
	runtime.ReadMemStats(&after)
	a.Allocs = after.Mallocs - before.Mallocs
	for c := range callers {
		if errs[c] != nil {
			return a, errs[c]
		}
		a.Pairs += pairs[c]
	}
	return a, nil
}

func pair(locker *quorum.Locker, name string) error {
	lock, err := locker.Lock(context.Background(), name)
	if err != nil {
		return err
	}
	return lock.Unlock(context.Background())
}
