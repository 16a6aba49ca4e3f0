package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	holderURLs  = "QUORUMLOCK_TEST_URLS"
	holderLease = 3 * time.Second
)

// holderProcess holds a lock until it reads a byte. Then it watches the clock, and prints the
// lock's state as soon as it runs again after a pause. With GOMAXPROCS=1 no timer or goroutine of
// the process runs before that.
func holderProcess() int {
	fail := func(err error) int { fmt.Println("failed:", err); return 1 }
	locker, err := redlock.Open(strings.Split(os.Getenv(holderURLs), " "), quorum.WithLease(holderLease),
		quorum.WithNodeOptions(node.WithTimeout(nodeTimeout), node.WithoutQuarantine()))
	if err != nil {
		return fail(err)
	}
	defer locker.Close()
	held, err := locker.Lock(context.Background(), "job")
	if err != nil {
		return fail(err)
	}
	fmt.Println("held", held.Token())
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
		return fail(err)
	}
	began := time.Now() // taken before the next line is printed: the pause may follow at once
	last := began
	fmt.Println("watching")
	for {
		now := time.Now()
		if now.Sub(last) > holderLease {
			break
		}
		if now.Sub(began) > patience {
			return fail(errors.New("this process was not stopped"))
		}
		last = now
	}
	resumed := poll.Start()
	defer resumed.Stop()
	valid, level := held.Valid(), held.Level()
	select {
	case <-held.Context().Done():
	case <-time.After(patience):
	}
	ended, stalled := resumed.Read()
	lost := errors.Is(context.Cause(held.Context()), quorum.ErrLost)
	unlockSaysLost := errors.Is(held.Unlock(context.Background()), quorum.ErrLost)
	fmt.Println("resumed", valid, level, ended.Microseconds(), stalled.Microseconds(), lost, unlockSaysLost)
	return 0
}
