package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxLease = 30 * time.Second

// newPipe returns a pipe that connects so.
func newPipe(lifetime context.Context, timeout time.Duration, connect func(context.Context) (redis.ConnWithTimeout, error)) *Pipe {
	return New(Config{
		Timeout: timeout, MaxLease: maxLease, Source: rand.NewPCG(1, 2), Lifetime: lifetime, Log: discardLog{},
		Group: new(sync.WaitGroup),
		Connect: func(ctx context.Context) (*Conn, error) {
			c, err := connect(ctx)
			if err != nil {
				return nil, err
			}
			return NewConn(c, "run", scripts.Process{}, maxLease), nil
		},
		Left:  func(redis.Conn, string) {},
		Error: func(op string, err error) error { return fmt.Errorf("%s: %w", op, err) },
	})
}

// unconnected returns a pipe that cannot connect.
func unconnected() *Pipe {
	return newPipe(context.Background(), time.Second,
		func(context.Context) (redis.ConnWithTimeout, error) { return nil, errors.New("no server") })
}

// closeAndWait closes a pipe, and waits for its goroutines.
func closeAndWait(p *Pipe) {
	p.Close()
	p.cfg.Group.Wait()
}

type discardLog struct{}

func (discardLog) Down(error)                                 {}
func (discardLog) StillDown(error)                            {}
func (discardLog) Up()                                        {}
func (discardLog) Quarantined(Quarantine)                     {}
func (discardLog) NotAccepted(*scripts.List, scripts.Refusal) {}
func (discardLog) Left(error)                                 {}
func (discardLog) ReleaseRefused(scripts.Call, error)         {}

// The connect timer may fire just after the connection was made. A pipe that it took down then
// would stay down for ever: a live connection is not connected again.
func TestALateConnectTimerLeavesThePipeUp(t *testing.T) {
	p := unconnected()
	for before, after := range map[state]state{connecting: down, up: up} {
		p.mu.Lock()
		p.state = before
		p.mu.Unlock()
		p.goDownFrom(ErrTimeout, connecting)
		testkit.Equal(t, p.state, after, before)
	}
}

// The number of refused releases that are kept is bounded, their retries become rare, and end after
// one max lease.
func TestRefusedReleasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.state = up
		const many = 3 * maxRefused
		var first *Footprint
		for i := range many {
			r := releaseOf(i)
			p.refused(r, errRefused)
			if i == 0 {
				first = r.footprint
			}
		}
		testkit.Check(t, len(p.debts.of) == maxRefused && p.debts.of[first] != nil, "%d are kept, not the first", len(p.debts.of))

		began, sent := time.Now(), 0
		for time.Since(began) < 2*maxLease {
			testkit.Pass(50 * time.Millisecond)
			p.mu.Lock()
			retried := p.queue
			p.queue = nil
			p.mu.Unlock()
			sent += len(retried)
			for _, r := range retried {
				p.refused(r, errRefused)
			}
			if len(retried) > 0 && time.Since(began) > maxLease {
				t.Fatalf("resent after %v", time.Since(began))
			}
		}
		each := sent / maxRefused
		testkit.Check(t, each >= 5 && each <= 15 && len(p.debts.of) == 0,
			"each was resent %d times, and %d are left", each, len(p.debts.of))

		p.refused(releaseOf(many), errRefused)
		p.state = idle // for Close
		closeAndWait(p)
		testkit.Equal(t, len(p.debts.of), 0, "left after Close")
	})
}
