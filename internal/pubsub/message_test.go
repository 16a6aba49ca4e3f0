package pubsub_test

import (
	"bytes"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/pubsub"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// hostileReplies are no replies to a subscriber, alongside [canned.Garbage]. None announces a size that could be
// allocated: only the connections of FuzzMessages bound that.
var hostileReplies = map[string]string{
	"NOPERM":                         "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
	"an unknown command":             "-ERR unknown command\r\n",
	"a number":                       ":1\r\n",
	"OK":                             "+OK\r\n",
	"null":                           "*-1\r\n",
	"an empty array":                 "*0\r\n",
	"an array of numbers":            "*3\r\n:1\r\n:2\r\n:3\r\n",
	"another array":                  "*3\r\n" + canned.Bulk("psubscribe") + canned.Bulk("c") + ":1\r\n",
	"an array of arrays":             "*2\r\n*1\r\n$1\r\nc\r\n*0\r\n",
	"a message of nothing":           "*1\r\n" + canned.Bulk("message"),
	"a message of another channel":   messageOf("x"),
	"an end of the subscription":     "*3\r\n" + canned.Bulk("unsubscribe") + canned.Bulk("c") + ":0\r\n",
	"a null channel":                 "*3\r\n" + canned.Bulk("subscribe") + "$-1\r\n:1\r\n",
	"a channel without a subscriber": "*3\r\n" + canned.Bulk("subscribe") + canned.Bulk("x") + ":1\r\n",
	"more replies than commands":     strings.Repeat("*3\r\n"+canned.Bulk("unsubscribe")+canned.Bulk("x")+":0\r\n", 5),
	"pongs":                          strings.Repeat("+PONG\r\n", 5),
}

// A server that sends malformed or error replies is retried with the backoff. No goroutine runs any
// more soon after the subscriber has cancelled.
func TestHostileReplies(t *testing.T) {
	all := canned.Garbage()
	maps.Copy(all, hostileReplies)
	for what, reply := range all {
		t.Run(what, func(t *testing.T) {
			inBubble(t, answering(func([]string) string { return reply }), func(t *testing.T, s *subscriptions, srv *server) {
				var r recorder
				cancel := s.Subscribe("c", &r)
				before := srv.Dialled()
				testkit.Pass(20 * time.Second)
				got := srv.Dialled() - before
				testkit.Check(t, got <= maxDials(20*time.Second), "%d connections in 20s", got)
				r.wants(t, "the subscriber")
				endsWithin(t, cancel, 3*timeout+pubsub.Linger)
			})
		})
	}
}

// The modes of a hostile server.
const (
	hangsUp  = 1 << iota // it closes the connection after its bytes; else it stays silent
	dribbles             // it sends one byte at a time, a quarter of the timeout apart
)

const fuzzTimeout = 100 * time.Millisecond

// FuzzMessages makes a server send arbitrary bytes to a subscriber. Nothing panics. The subscriber
// gets no confirmation and no message that the server did not send. All goroutines end soon after the
// subscriber has cancelled.
func FuzzMessages(f *testing.F) {
	subscribed := "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	message := "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n"
	pong := "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	for _, mode := range []int{0, hangsUp, dribbles} {
		for _, sent := range []string{
			"", subscribed, subscribed + pong + message, message, pong + subscribed, subscribed + subscribed, subscribed + pong + pong,
			subscribed + "+PONG\r\n", "-NOPERM no\r\n" + pong, "-NOPERM no\r\n-NOPERM no\r\n-NOPERM no\r\n", "*1\r\n$7\r\nmessage\r\n",
			"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", "*3\r\n$9\r\nsubscribe\r\n$-1\r\n:1\r\n", "*0\r\n", "*-1\r\n", ":1\r\n", "$1048577\r\n",
			"$999999999999\r\n", "*999999999\r\n", "*4\r\n$8\r\npmessage\r\n$1\r\nc\r\n$1\r\nc\r\n$1\r\n0\r\n",
		} {
			f.Add([]byte(sent), byte(mode))
		}
	}
	f.Fuzz(func(t *testing.T, sent []byte, mode byte) {
		if len(sent) > 1<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			h := &canned.Hostile{Sent: sent, Timeout: fuzzTimeout, Dribbles: mode&dribbles != 0}
			h.Serve = serve(h, mode&hangsUp != 0)
			pool := &redis.Pool{MaxIdle: 2, DialContext: h.Dial}
			defer h.Serving.Wait()
			defer pool.Close()
			s := newSubscriptions(t, pool, fuzzTimeout)
			var r recorder
			cancel := s.Subscribe("c", &r)
			testkit.Pass(20 * fuzzTimeout)
			cancel()
			for _, call := range r.calls {
				word := map[byte]string{'s': "subscribe", 'u': "subscribe", 'm': "message"}[call[0]]
				testkit.Check(t, bytes.Contains(sent, []byte(word)), "%q: the subscriber was called: %q", sent, r.calls)
			}
			atMost := 3*fuzzTimeout + pubsub.Linger
			if mode&dribbles != 0 {
				atMost += 2 * fuzzTimeout * time.Duration(len(sent)) // each byte may be a reply
			}
			testkit.Pass(atMost)
			testkit.Check(t, running() == 0, "%q, mode %b: it runs on without a subscriber", sent, mode)
		})
	})
}

// serve is a server that reads while it writes: a net.Pipe has no buffer.
func serve(h *canned.Hostile, hangsUp bool) func(net.Conn) {
	return func(c net.Conn) {
		closed := make(chan struct{})
		h.Serving.Go(func() {
			defer close(closed)
			io.Copy(io.Discard, c)
		})
		if h.Send(c) && !hangsUp {
			<-closed
		}
	}
}
