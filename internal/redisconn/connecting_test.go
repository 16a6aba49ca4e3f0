package redisconn

import (
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A refused password is tried rarely, since the server may lock the user out; a master that was restarted
// is found at once.
func TestHowOftenAFailedConnectionIsTried(t *testing.T) {
	for _, c := range []struct {
		err         error
		least, most int // in ten minutes
	}{
		{redis.Error("WRONGPASS invalid username-password pair or user is disabled."), 20, 45},
		{redis.Error("LOADING Redis is loading the dataset in memory"), 100, 160},
		{ErrTimeout, 100, 160},
		{io.EOF, 2000, 3000},
		{syscall.ECONNREFUSED, 2000, 3000},
		{errors.New("no such host"), 100, 160},
	} {
		var b Backoff
		rng := rand.New(rand.NewPCG(1, 2))
		tries := 0
		for passed := time.Duration(0); passed < 10*time.Minute; tries++ {
			passed += b.Next(c.err, rng)
		}
		if tries < c.least || tries > c.most {
			t.Errorf("%v: tried %d times in ten minutes, want %d to %d", c.err, tries, c.least, c.most)
		}
		b.Reset()
		if first := b.Next(c.err, rng); first > 2*minBackoff {
			t.Errorf("%v: the first pause is %v", c.err, first)
		}
	}
}
