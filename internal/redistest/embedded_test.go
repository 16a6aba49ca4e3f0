package redistest_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A client of a master that crashes loses its connection. It never gets an error reply: that would
// mean that the server looked at the command and refused it.
func TestEmbeddedKillAndStartGiveClientsNoErrorReplies(t *testing.T) {
	m := standin.ForTest(t, 1).Masters[0]
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for range 32 {
		running.Go(func() {
			for err := error(nil); err == nil && t.Context().Err() == nil; { // which ends before the cleanup
				err = firstErrorReply(m)
				testkit.Is(t, err, nil, "an error reply")
			}
		})
	}
	for range 50 {
		testkit.Must(t, m.Kill())
		testkit.Must(t, m.Start())
		testkit.Do(t, m, "PING")
	}
}

// firstErrorReply sends commands on one connection until it breaks, or one is refused.
func firstErrorReply(m *redistest.Master) error {
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialReadTimeout(time.Second))
	if err != nil {
		return nil
	}
	defer conn.Close()
	for range 20 {
		_, err := conn.Do("SET", "k", "v")
		var reply redis.Error
		if errors.As(err, &reply) {
			return reply
		}
		if err != nil {
			return nil
		}
	}
	return nil
}
