package pubsub_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestSubscribersShareAConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		var all [3][10]recorder
		for c := range all {
			for i := range all[c] {
				cancel := s.Subscribe(fmt.Sprint("channel", c), &all[c][i])
				defer cancel()
			}
			synctest.Wait()
		}
		srv.do(t, "PUBLISH", "channel1", "0")
		for c := range all {
			for i := range all[c] {
				want := []string{"subscribed"}
				if c == 1 {
					want = append(want, "message")
				}
				all[c][i].wants(t, fmt.Sprintf("subscriber %d of channel %d", i, c), want...)
			}
		}
		testkit.Pass(time.Minute) // the pings keep the connection
		srv.wantDials(t, 1)
	})
}

// A subscriber that comes after the confirmation is called at once. A subscriber that has cancelled
// is no longer called.
func TestSubscribersComeAndGo(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		var first, second, third recorder
		cancelFirst := s.Subscribe("c", &first)
		synctest.Wait()
		cancelSecond := s.Subscribe("c", &second)
		second.wants(t, "the second", "subscribed")
		srv.do(t, "PUBLISH", "c", "0")
		cancelFirst()
		cancelFirst() // does nothing
		srv.do(t, "PUBLISH", "c", "0")
		cancelSecond()
		synctest.Wait()
		testkit.Equal[any](t, srv.do(t, "PUBLISH", "c", "0"), int64(0), "subscriptions that stand when all are cancelled")
		cancelThird := s.Subscribe("c", &third)
		defer cancelThird()
		synctest.Wait()
		srv.do(t, "PUBLISH", "c", "0")
		first.wants(t, "the first", "subscribed", "message")
		second.wants(t, "the second", "subscribed", "message", "message")
		third.wants(t, "the third", "subscribed", "message")
	})
}

// A channel is unsubscribed and subscribed to again. The reply to the last SUBSCRIBE confirms it,
// not the reply to the first, whether the last has been sent by then (waits) or not.
func TestTheLastSubscriptionCounts(t *testing.T) {
	for _, waits := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
			permits := make(chan struct{})
			t.Cleanup(func() { close(permits) })
			srv.SetServe(answering(func(args []string) string {
				if args[0] != "PING" {
					<-permits
				}
				return confirmation(args)
			}))
			var first, second, third recorder
			cancel := s.Subscribe("c", &first)
			synctest.Wait() // SUBSCRIBE has been sent
			cancel()
			if waits {
				synctest.Wait()
			}
			cancel = s.Subscribe("c", &second)
			synctest.Wait()
			cancel()
			cancel = s.Subscribe("c", &third)
			defer cancel()
			for _, reply := range []string{"subscribe", "unsubscribe", "subscribe", "unsubscribe"} {
				permits <- struct{}{}
				synctest.Wait()
				third.wants(t, "the third, after one more "+reply)
			}
			permits <- struct{}{}
			synctest.Wait()
			third.wants(t, "the third", "subscribed")
			first.wants(t, "the first")
			second.wants(t, "the second")
		})
	}
}

func TestTheConnectionLingers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		var r recorder
		cancel := s.Subscribe("c", &r)
		testkit.Pass(time.Second)
		cancel()
		testkit.Pass(pubsub.Linger * 3 / 4)
		testkit.Require(t, running() != 0, "the connection is closed when the last subscriber has just left")
		cancel = s.Subscribe("d", &r) // before Linger ends: the same connection is used, and stays
		testkit.Pass(10 * pubsub.Linger)
		r.wants(t, "the subscriber", "subscribed", "subscribed")
		srv.wantDials(t, 1)
		endsWithin(t, cancel, pubsub.Linger*3/2)
		testkit.Equal(t, srv.Pool.ActiveCount()-srv.Pool.IdleCount(), 0, "connections in use")
		cancel = s.Subscribe("e", &r)
		synctest.Wait()
		cancel()
		r.wants(t, "the subscriber", "subscribed", "subscribed", "subscribed")
		srv.wantDials(t, 2)
	})
}

// So does one that is made when the subscriber has left: a node that is farther than the others would be dialed for each wait.
func TestALateConnectionLingers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *subscriptions, srv *server) {
		dial := srv.Pool.DialContext
		srv.Pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			time.Sleep(pubsub.Linger)
			return dial(ctx)
		}
		var r recorder
		for range 5 {
			cancel := s.Subscribe("c", &r)
			testkit.Pass(pubsub.Linger / 2)
			cancel()
			testkit.Pass(pubsub.Linger * 3 / 4)
		}
		srv.wantDials(t, 1)
		testkit.Pass(pubsub.Linger)
		wantNoneRunning(t)
	})
}

// With a timeout shorter than Linger, a lingering connection does not time out for a subscriber
// that comes back.
func TestALingeringConnectionIsPinged(t *testing.T) {
	const short = pubsub.Linger / 4
	inBubble(t, nil, func(t *testing.T, _ *subscriptions, srv *server) {
		s := newSubscriptions(t, srv.Pool, short)
		var first, second recorder
		cancel := s.Subscribe("c", &first)
		testkit.Pass(short / 2)
		cancel()
		testkit.Pass(short / 4)
		defer s.Subscribe("c", &second)()
		testkit.Pass(10 * short)
		second.wants(t, "the one that comes back", "subscribed")
	})
}

// No method of a subscriber is called after cancel has returned, however many messages arrive.
func TestNoCallsAfterCancel(t *testing.T) {
	inBubble(t, answering(func(args []string) string {
		return confirmation(args) + strings.Repeat(messageOf("c"), 500)
	}), func(t *testing.T, s *subscriptions, srv *server) {
		defer s.Subscribe("c", &recorder{})()
		for range 200 {
			r := &strict{t: t}
			cancel := s.Subscribe("c", r)
			runtime.Gosched()
			cancel()
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			s.Subscribe("d", &recorder{})() // brings more messages
		}
		synctest.Wait()
	})
}

// strict fails its test when it is called after its end.
type strict struct {
	t    *testing.T
	mu   sync.Mutex
	over bool
}

func (s *strict) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	testkit.Check(s.t, !s.over, "called after cancel had returned")
}

func (s *strict) OnSubscribed()   { s.check() }
func (s *strict) OnMessage()      { s.check() }
func (s *strict) OnUnsubscribed() { s.check() }

func TestCloseWithSubscribers(t *testing.T) {
	for what, serve := range map[string]func(net.Conn){"a master": nil, "a frozen one": frozen, "a dead one": nil} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, serve, func(t *testing.T, s *subscriptions, srv *server) {
				atMost := time.Millisecond
				switch what {
				case "a frozen one":
					atMost = 2 * timeout
				case "a dead one":
					srv.SetDead(true)
				}
				var r recorder
				cancel := s.Subscribe("c", &r)
				testkit.Pass(time.Second)
				closesWithin(t, s, atMost)
				late := s.Subscribe("d", &r) // without effect
				testkit.Pass(time.Second)
				wantNoneRunning(t)
				late()
				cancel()
				if what == "a master" {
					r.wants(t, "the subscriber", "subscribed", "unsubscribed")
				}
			})
		})
	}
}

// closesWithin fails the test unless all goroutines end within atMost after Close.
func closesWithin(t *testing.T, s *subscriptions, atMost time.Duration) {
	t.Helper()
	began := time.Now()
	s.closeAndWait()
	d := time.Since(began)
	testkit.Check(t, d <= atMost, "Close took %v, want %v at most", d, atMost)
	synctest.Wait()
	wantNoneRunning(t)
}

// Messages that keep arriving keep no connection after Close. The simulation found this with seed
// 18121.
func TestCloseWhileMessagesCome(t *testing.T) {
	talkative := func(c net.Conn) {
		ended := make(chan struct{})
		var talking sync.WaitGroup
		talking.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(timeout / 2):
					c.Write([]byte(messageOf("c")))
				}
			}
		})
		answering(func(args []string) string {
			if args[0] == "PING" {
				return canned.Silent
			}
			return confirmation(args)
		})(c)
		close(ended)
		talking.Wait()
	}
	inBubble(t, talkative, func(t *testing.T, s *subscriptions, srv *server) {
		defer s.Subscribe("c", &recorder{})()
		testkit.Pass(timeout / 4)
		closesWithin(t, s, timeout)
	})
}

// A pool whose dials hang and ignore the context delays neither cancel nor Close. A connection that is made after Close is not
// used.
func TestADialThatHangs(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		inBubble(t, frozen, func(t *testing.T, s *subscriptions, srv *server) {
			free := make(chan struct{})
			dial := srv.Pool.DialContext
			srv.Pool.DialContext = func(ctx context.Context) (redis.Conn, error) { <-free; return dial(ctx) }
			cancel := s.Subscribe("c", &recorder{})
			testkit.Pass(timeout / 2)
			began := time.Now()
			if cancels {
				cancel()
			}
			s.Close()
			testkit.Equal(t, time.Since(began), 0, "what cancel and Close took")
			ended := make(chan struct{})
			go func() {
				s.group.Wait()
				close(ended)
			}()
			testkit.Pass(timeout / 2)
			select {
			case <-ended:
				t.Error("Close reports the end during the dial")
			default:
			}
			close(free)
			<-ended
			testkit.Equal(t, time.Since(began), timeout/2, "time until the end")
			testkit.Equal(t, srv.Pool.ActiveCount()-srv.Pool.IdleCount(), 0, "connections in use")
			synctest.Wait()
			wantNoneRunning(t)
			cancel()
		})
	}
}
