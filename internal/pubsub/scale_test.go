package pubsub_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// manyChannels is smaller under the race detector, which makes a quadratic scan stand out sooner.
var manyChannels = map[bool]int{false: 100_000, true: 20_000}[testkit.Race()]

// counter is a Subscriber that counts the subscriptions that stand.
type counter struct{ standing *atomic.Int64 }

func (c counter) OnSubscribed()   { c.standing.Add(1) }
func (c counter) OnMessage()      {}
func (c counter) OnUnsubscribed() { c.standing.Add(-1) }

// subscribeRange subscribes to the channels from one number up to, but not including, another.
func subscribeRange(s *subscriptions, from, to int, standing *atomic.Int64) (cancels []func()) {
	for i := from; i < to; i++ {
		cancels = append(cancels, s.Subscribe(fmt.Sprintf("channel%08d", i), counter{standing}))
	}
	return cancels
}

// confirming replies like a correct server, and counts the commands.
func confirming(count func(command string)) func(net.Conn) {
	return answering(func(args []string) string {
		count(args[0])
		return confirmation(args)
	})
}

// Commands that wait to be sent do not slow down the replies that arrive meanwhile: a reply takes the same time, whether or not half
// of the many commands wait. A stall of the machine spoils one measurement, not three.
func TestManySubscriptions(t *testing.T) {
	for range 3 {
		together := 4 * subscribeToMany(t, manyChannels/4, manyChannels/4)
		inHalves := subscribeToMany(t, manyChannels, manyChannels/2)
		t.Logf("%d channels: sent together %v, in halves %v", manyChannels, together, inHalves)
		if inHalves <= 5*together { // ten times and more when each reply scans what waits
			return
		}
	}
	t.Error("replies take longer when half of the commands wait")
}

// subscribeToMany subscribes to many channels, cancels, and returns how much real time the replies to the subscriptions take.
// The first commands are sent together, and are answered only when the others wait to be sent.
func subscribeToMany(t *testing.T, many, first int) time.Duration {
	t.Helper()
	push, shown := make(chan struct{}), make(chan time.Duration, 1)
	go func() { // a stopwatch outside the bubble, where time is real
		<-push
		began := time.Now()
		<-push
		shown <- time.Since(began)
	}()
	defer close(push)
	synctest.Test(t, func(t *testing.T) {
		connected, served := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		commands := map[string]int{}
		serve := confirming(func(command string) {
			mu.Lock()
			defer mu.Unlock()
			commands[command]++
		})
		srv := newServer(t, func(c net.Conn) { <-served; serve(c) })
		dial := srv.Pool.DialContext
		srv.Pool.DialContext = func(ctx context.Context) (redis.Conn, error) { <-connected; return dial(ctx) }
		s := newSubscriptions(t, srv.Pool, timeout)
		var standing atomic.Int64
		cancels := subscribeRange(s, 0, first, &standing)
		close(connected)
		synctest.Wait() // the writer blocks with the first: the server does not read
		cancels = append(cancels, subscribeRange(s, first, many, &standing)...)
		push <- struct{}{}
		close(served)
		synctest.Wait()
		push <- struct{}{}
		testkit.Equal(t, standing.Load(), int64(many), "subscriptions that stand")
		for _, cancel := range cancels {
			cancel()
		}
		testkit.Pass(2 * pubsub.Linger)
		wantNoneRunning(t)
		srv.wantDials(t, 1)
		mu.Lock()
		defer mu.Unlock()
		testkit.Check(t, commands["SUBSCRIBE"] == many && commands["UNSUBSCRIBE"] == many && commands["PING"] <= 3,
			"sent %v, want one SUBSCRIBE and one UNSUBSCRIBE for each channel, and few pings", commands)
	})
	return <-shown
}

// A ping that listed the channels would allocate their names' headers each time.
func TestAPingDoesNotListTheChannels(t *testing.T) {
	inBubble(t, confirming(func(string) {}), func(t *testing.T, s *subscriptions, srv *server) {
		var standing atomic.Int64
		subscribeRange(s, 0, manyChannels, &standing)
		synctest.Wait()
		const pings = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		testkit.Pass(pings * timeout)
		runtime.ReadMemStats(&after)
		each := (after.TotalAlloc - before.TotalAlloc) / pings
		t.Logf("%d bytes for each ping", each)
		names := uint64(manyChannels * 16)
		testkit.Check(t, each <= names/100,
			"a ping allocates %d bytes: the headers of the channels' names alone are %d", each, names)
		testkit.Equal(t, standing.Load(), int64(manyChannels), "subscriptions that stand")
		srv.wantDials(t, 1)
	})
}
