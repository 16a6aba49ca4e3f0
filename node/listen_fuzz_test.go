package node

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// FuzzMessages has a server say anything to a subscriber. Nothing panics; nobody is told that a subscription stands, or of a
// message, of which the server did not speak; nothing runs any more soon after the listener has stopped.
func FuzzMessages(f *testing.F) {
	subscribed := "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	message := "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n"
	pong := "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	for _, mode := range []int{0, hangsUp, dribbles} {
		for _, said := range []string{
			"", subscribed, subscribed + pong + message, message, pong + subscribed, subscribed + subscribed, subscribed + pong + pong,
			subscribed + "+PONG\r\n", "-NOPERM no\r\n" + pong, "-NOPERM no\r\n-NOPERM no\r\n-NOPERM no\r\n", "*1\r\n$7\r\nmessage\r\n",
			"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", "*3\r\n$9\r\nsubscribe\r\n$-1\r\n:1\r\n", "*0\r\n", "*-1\r\n", ":1\r\n", "$1048577\r\n",
			"*4\r\n$8\r\npmessage\r\n$1\r\nc\r\n$1\r\nc\r\n$1\r\n0\r\n",
		} {
			f.Add([]byte(said), byte(mode))
		}
	}
	f.Fuzz(func(t *testing.T, said []byte, mode byte) {
		if len(said) > 1<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			h := &hostile{said: said, mode: int(mode) | rude}
			pool := &redis.Pool{MaxIdle: 2, DialContext: h.dial}
			defer h.serving.Wait()
			defer pool.Close()
			n, err := New(pool, WithTimeout(fuzzTimeout))
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			l := &told{}
			stop := n.Listen("c", l)
			time.Sleep(20 * fuzzTimeout)
			stop()
			if l.listening && !bytes.Contains(said, []byte("subscribe")) || l.heard && !bytes.Contains(said, []byte("message")) {
				t.Errorf("%q: the listener was told %+v", said, *l)
			}
			patience := 3*fuzzTimeout + linger
			if mode&dribbles != 0 {
				patience += 2 * fuzzTimeout * time.Duration(len(said)) // each byte may be a reply
			}
			time.Sleep(patience)
			n.ears.mu.Lock()
			defer n.ears.mu.Unlock()
			if n.ears.running {
				t.Errorf("%q, mode %b: it goes on listening to nothing", said, mode)
			}
		})
	})
}

// told notes what a listener was told.
type told struct{ listening, heard bool }

func (l *told) Listening() { l.listening = true }
func (l *told) Heard()     { l.heard = true }
func (l *told) Deaf()      {}
