package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// The first start is one line of the log, in each process, and one when it is over. It is no warning:
// neither one for each node nor one for the calls that wait. A master that comes back later is one.
func TestAFirstStartIsOneLineOfTheLog(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var log logLines
		log.setDefault(t)
		quarantine := c.quarantined()
		for process := range 2 {
			l := c.process()
			go func() {
				if lock, err := l.Lock(t.Context(), "a"); err == nil {
					lock.Unlock(t.Context())
				}
			}()
			time.Sleep(quarantine / 4)
			synctest.Wait()
			if n := log.count("level=INFO msg=\"quorumlock: new masters: "); n != process+1 {
				t.Errorf("%d lines say it", n)
			}
		}
		if n := log.count("left=30s"); n != 1 {
			t.Errorf("how long it takes stands there %d times", n)
		}
		time.Sleep(quarantine)
		synctest.Wait()
		if n := log.count("level=WARN"); n != 0 {
			t.Errorf("%d warnings: %s", n, &log.all)
		}
		if n := log.count("its quarantine is over"); n != 0 {
			t.Errorf("%d nodes said that they grant again", n)
		}
		if n := log.count("level=INFO msg=\"quorumlock: new masters grant now\""); n != 2 {
			t.Errorf("%d lines of two processes say that the wait is over: %s", n, &log.all)
		}
		l := c.process()
		c.lets(l, "a")
		c.masters[0].Crash(fakeredis.Nothing)
		c.masters[0].Start()
		// The first calls may connect again, or mark it, and an attempt may not wait for its reply.
		for range 10 {
			time.Sleep(time.Second)
			c.lets(l, "a")
			synctest.Wait()
		}
		if n := log.count("level=WARN msg=\"quorumlock: node in quarantine"); n != 1 {
			t.Errorf("%d warnings of the node in quarantine: %s", n, &log.all)
		}
	})
}
