package pubsub_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// maxDials bounds the connections that a backoff of up to 250 ms, on average, allows in a period.
func maxDials(d time.Duration) int { return 10 + int(d/(125*time.Millisecond)) }

// wantFewDials lets the time pass. It wants connections to be tried throughout, but at the rate of
// the backoff.
func wantFewDials(t *testing.T, srv *server, d time.Duration) {
	t.Helper()
	before := srv.Dialled()
	testkit.Pass(d)
	got := srv.Dialled() - before
	testkit.Check(t, got >= 2 && got <= maxDials(d), "%d connections in %v, want 2 to %d", got, d, maxDials(d))
}

// A connection that dies, or whose address leads elsewhere now, is made again, and the subscribers hear of it.
func TestAConnectionIsMadeAgain(t *testing.T) {
	for what, end := range map[string]func(*subscriptions, *server){
		"killed": func(_ *subscriptions, srv *server) { srv.Kill() },
		"left":   func(s *subscriptions, _ *server) { s.move() },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
				var r, other recorder
				defer s.Subscribe("c", &r)()
				defer s.Subscribe("d", &other)()
				testkit.Pass(time.Second)
				s.Leave(s.process()) // it leads there
				testkit.Pass(time.Second)
				srv.wantDials(t, 1)
				end(s, srv)
				synctest.Wait()
				r.wants(t, "the subscriber", "subscribed", "unsubscribed")
				testkit.Pass(time.Second)
				other.wants(t, "the other", "subscribed", "unsubscribed", "subscribed")
				srv.do(t, "PUBLISH", "c", "0")
				r.wants(t, "the subscriber", "subscribed", "unsubscribed", "subscribed", "message")
				srv.wantDials(t, 2)
				for range 12 { // each time at once
					srv.Kill()
					testkit.Pass(time.Second)
				}
				srv.wantDials(t, 14)
			})
		})
	}
}

// So is one whose address leads elsewhere before it is used: who publishes there would not be heard.
func TestAConnectionIsLeftWhileItIsMade(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		dial, move := srv.Pool.DialContext, sync.OnceFunc(s.move)
		srv.Pool.DialContext = func(ctx context.Context) (redis.Conn, error) { move(); return dial(ctx) }
		var r recorder
		defer s.Subscribe("c", &r)()
		testkit.Pass(time.Second)
		srv.wantDials(t, 2)
		r.wants(t, "the subscriber", "subscribed")
	})
}

func TestADeadServer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		srv.SetDead(true)
		var r recorder
		cancel := s.Subscribe("c", &r)
		wantFewDials(t, srv, 20*time.Second)
		r.wants(t, "the subscriber")
		cancel()
		synctest.Wait()
		wantNoneRunning(t) // at once

		cancel = s.Subscribe("c", &r)
		synctest.Wait()
		srv.SetDead(false)
		testkit.Pass(time.Second)
		r.wants(t, "the subscriber to a server that is back", "subscribed")
		cancel()
	})
}

// While a channel has no connection, who subscribes to it is not told that it is subscribed.
func TestASubscriberMeanwhile(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		var first, late recorder
		defer s.Subscribe("c", &first)()
		testkit.Pass(time.Second)
		srv.SetDead(true)
		srv.Kill()
		synctest.Wait()
		defer s.Subscribe("c", &late)()
		late.wants(t, "the late one")
		srv.SetDead(false)
		testkit.Pass(5 * time.Second)
		late.wants(t, "the late one", "subscribed")
		first.wants(t, "the first", "subscribed", "unsubscribed", "subscribed")
	})
}

// freezing replies like a correct server until it is frozen.
func freezing() (serve func(net.Conn), freeze func()) {
	var now atomic.Bool
	return answering(func(args []string) string {
		if now.Load() {
			return canned.Silent
		}
		return confirmation(args)
	}), func() { now.Store(true) }
}

// The server freezes during a subscription: the pings detect it. The subscriptions' timeout bounds
// silence, whatever timeouts the pool's connections have.
func TestTheTimeoutsOfThePool(t *testing.T) {
	for what, ofPool := range map[string]time.Duration{"none": 0, "the same": timeout, "shorter ones": timeout / 4, "longer ones": time.Hour} {
		t.Run(what, func(t *testing.T) {
			serve, freeze := freezing()
			inBubble(t, serve, func(t *testing.T, s *subscriptions, srv *server) {
				srv.Timeout = ofPool
				var r recorder
				cancel := s.Subscribe("c", &r)
				testkit.Pass(10 * time.Second)
				r.wants(t, "the subscriber", "subscribed")
				srv.wantDials(t, 1)
				freeze()
				testkit.Pass(3 * timeout)
				r.wants(t, "the subscriber to a frozen server", "subscribed", "unsubscribed")
				endsWithin(t, cancel, 3*timeout)
			})
		})
	}
}

// A server that reads nothing blocks the writer, which ends with the connection.
func TestAServerThatDoesNotRead(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		over := make(chan struct{})
		t.Cleanup(func() { close(over) })
		srv.Timeout = 0
		srv.SetServe(func(net.Conn) { <-over }) // a pipe has no buffer: the first byte blocks
		var r recorder
		cancel := s.Subscribe("c", &r)
		testkit.Pass(10 * timeout)
		r.wants(t, "the subscriber")
		n := srv.Dialled()
		testkit.Check(t, n >= 3, "%d connections, want a new one for each that is silent", n)
		endsWithin(t, cancel, 3*timeout)
	})
}

// Subscribers that come and go while the server is frozen make nothing grow.
func TestSubscribersOfAFrozenServerComeAndGo(t *testing.T) {
	inBubble(t, frozen, func(t *testing.T, s *subscriptions, srv *server) {
		for range 100 {
			cancel := s.Subscribe("c", &recorder{})
			testkit.Pass(timeout / 40)
			cancel()
		}
		got, most := srv.Dialled(), maxDials(100*timeout/40)
		testkit.Check(t, got <= most, "%d connections, want at most %d", got, most)
		testkit.Pass(3 * timeout)
		wantNoneRunning(t)
	})
}

// A refused subscription does not disturb others, and is confirmed once it is allowed.
func TestARefusedSubscriptionIsRetried(t *testing.T) {
	var allowed atomic.Bool
	var pings atomic.Int64
	inBubble(t, answering(func(args []string) string {
		if args[0] == "PING" {
			pings.Add(1)
		}
		if len(args) > 1 && args[1] == "secret" && !allowed.Load() {
			return "-NOPERM no\r\n"
		}
		return confirmation(args)
	}), func(t *testing.T, s *subscriptions, srv *server) {
		var r, refused recorder
		defer s.Subscribe("c", &r)()
		cancel := s.Subscribe("secret", &refused)
		testkit.Pass(20 * time.Second)
		cancel()
		synctest.Wait()
		cancel = s.Subscribe("secret", &refused)
		testkit.Pass(20 * time.Second)
		refused.wants(t, "the one that is refused")
		testkit.Check(t, pings.Load() <= int64(40*time.Second/timeout)+10, "%d pings", pings.Load())
		s.Subscribe("secret", &refused)() // both are refused
		cancel()
		s.Subscribe("secret", &refused)() // which the reply finds gone
		testkit.Pass(2 * timeout)
		cancel = s.Subscribe("secret", &refused)
		testkit.Pass(timeout)
		allowed.Store(true)
		for range 8 { // others come and go meanwhile
			s.Subscribe("d", &recorder{})()
			testkit.Pass(timeout / 4)
		}
		refused.wants(t, "the one that is allowed now", "subscribed")
		cancel()
		r.wants(t, "the other", "subscribed")
		srv.wantDials(t, 1)
	})
}

// A server that closes the connection, or replies to no command (which counts as garbage, also after correct replies), is
// tried again with the backoff.
func TestServersThatAreTriedAgainWithTheBackoff(t *testing.T) {
	for what, handle := range map[string]func(args []string) string{
		"replies to no command": func(args []string) string { return strings.Repeat(confirmation(args), 2) },
		"replies to no ping":    func(args []string) string { return confirmation(args) + strings.Repeat("+PONG\r\n", len(args)%2*2) },
		"announces too much":    func([]string) string { return "$9223372036854775807\r\n" },
		"hangs up": func(args []string) string {
			if args[0] == "PING" {
				return canned.HangUp
			}
			return confirmation(args)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, answering(handle), func(t *testing.T, s *subscriptions, srv *server) {
				cancel := s.Subscribe("c", &recorder{})
				wantFewDials(t, srv, 20*time.Second)
				endsWithin(t, cancel, 3*timeout)
			})
		})
	}
}

// A connection that has served for long is made again at once, however many before it have failed.
func TestAConnectionThatServedIsMadeAgainAtOnce(t *testing.T) {
	var fail atomic.Bool
	handle := func(args []string) string {
		if args[0] == "PING" && fail.Swap(false) {
			return ":1\r\n"
		}
		return confirmation(args)
	}
	inBubble(t, answering(handle), func(t *testing.T, s *subscriptions, srv *server) {
		defer s.Subscribe("c", &recorder{})()
		for n := range 12 {
			testkit.Pass(10 * time.Second)
			fail.Store(true)
			testkit.Pass(time.Second)
			srv.wantDials(t, n+2)
		}
	})
}

// A pool without a spare connection does not disturb its other user. The subscription is confirmed
// once a connection is free.
func TestAPoolWithoutASpareConnection(t *testing.T) {
	for _, wait := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
			srv.Pool.MaxActive, srv.Pool.Wait = 1, wait
			taken := srv.Pool.Get()
			testkit.Got(taken.Do("SET", "k", "1"))(t)
			var r recorder
			cancel := s.Subscribe("c", &r)
			testkit.Pass(20 * time.Second)
			r.wants(t, "the subscriber")
			testkit.Got(taken.Do("DEL", "k"))(t)
			endsWithin(t, cancel, 2*timeout)

			defer s.Subscribe("c", &r)()
			testkit.Pass(time.Second)
			testkit.Must(t, taken.Close())
			testkit.Pass(time.Second)
			r.wants(t, "the subscriber, with a connection to spare", "subscribed")
		})
	}
}
