package redisconn

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// ConnectTimeout is the time for making a connection to a server whose replies come within the timeout.
// It is longer, because it delays nobody: calls fail meanwhile. A slow server must not lose its clients
// for good, since each that hangs up and comes back slows it further; TLS and logging in take several
// round trips; and a net.Dialer divides the time between the host's addresses.
func ConnectTimeout(timeout time.Duration) time.Duration { return max(5*time.Second, timeout) }

const (
	minBackoff     = 10 * time.Millisecond
	cheapBackoff   = 250 * time.Millisecond
	replicaBackoff = time.Second
	maxBackoff     = 5 * time.Second
	refusedBackoff = 30 * time.Second
)

// Backoff is the pause before the next connection, which grows while connections fail. The zero value
// is ready for use.
type Backoff struct{ pause time.Duration }

// Next returns the pause after an error. It stays short while nothing listens, which costs a server
// nothing: a restarted one is found at once. It becomes longest for refused credentials, because of
// which a server may lock the user out.
func (b *Backoff) Next(err error, rng *rand.Rand) time.Duration {
	longest := maxBackoff
	switch {
	case IsBroken(err) || errors.Is(err, syscall.ECONNREFUSED):
		longest = cheapBackoff
	case RefusesCredentials(err):
		longest = refusedBackoff
	case errors.Is(err, ErrNoMaster) || errors.Is(err, ErrNotReplicated): // locks may be held, and need it before their deadlines
		longest = replicaBackoff
	}
	b.pause = min(max(2*b.pause, minBackoff), longest)
	return b.pause/2 + time.Duration(rng.Int64N(int64(b.pause)))
}

// Reset is called for a connection that serves.
func (b *Backoff) Reset() { b.pause = 0 }

// errKept is the cause of a context that was stopped.
var errKept = errors.New("the connection is kept")

// Interruptible returns a context whose cancellation closes the connections that are dialed with it, until
// stop is called, which ends the context: reads know only deadlines. See [Dialed].
func Interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, func() { cancel(errKept) }
}

// Dialed has the cancellation of the context, which is [Interruptible] if the connection outlives it, close a new connection.
func Dialed(ctx context.Context, c net.Conn) {
	context.AfterFunc(ctx, func() {
		// At the deadline the read fails, and says why.
		if errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), errKept) {
			c.Close()
		}
	})
}
