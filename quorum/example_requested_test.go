package quorum_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/usage.md quotes compact.

func compact(lock *quorum.Lock, segments <-chan string, merge func(segment string) error) error {
	for {
		select {
		case <-lock.Requested():
			return nil // somebody waits: the rest has time until the next run
		case <-lock.Context().Done():
			return context.Cause(lock.Context())
		case segment, more := <-segments:
			if !more {
				return nil
			}
			if err := merge(segment); err != nil {
				return err
			}
		}
	}
}

// A job in the background lets go when a call with more haste waits for its lock.
func ExampleLock_Requested() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	background := masters.Locker() // yours: redlock.Open(urls)
	urgent := masters.Locker(quorum.WithRequest())
	ctx := context.Background()

	segments, merged := make(chan string), make(chan string)
	go background.Do(ctx, func(_ context.Context, lock *quorum.Lock) error {
		return compact(lock, segments, func(segment string) error { merged <- segment; return nil })
	}, "table")
	segments <- "first"
	fmt.Println("merged:", <-merged)
	err := urgent.Do(ctx, func(context.Context, *quorum.Lock) error { // no further segment comes
		fmt.Println("the urgent call has the lock")
		return nil
	}, "table")
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// merged: first
	// the urgent call has the lock
}
