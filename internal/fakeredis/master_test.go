package fakeredis_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// The script vectors (package scripts) test the replies to commands and scripts. The tests here
// cover what the vectors cannot: time, and the end of a process.

// bubbled runs a test in a bubble, with a master whose clock runs at the rate.
func bubbled(t *testing.T, rate float64, test func(t *testing.T, m *fakeredis.Master)) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := fakeredis.New(func() time.Time { return start.Add(time.Duration(float64(time.Since(start)) * rate)) }, 1)
		defer m.Stop()
		test(t, m)
	})
}

func dial(t *testing.T, m *fakeredis.Master) redis.Conn {
	c := testkit.Pipe(m.Serve)
	t.Cleanup(func() { c.Close() })
	return c
}

func do(t *testing.T, c redis.Conn, command string, args ...any) any {
	t.Helper()
	reply, err := c.Do(command, args...)
	testkit.Require(t, err == nil, "%s %v: %v", command, args, err)
	return reply
}

func exists(t *testing.T, c redis.Conn, key string) bool {
	t.Helper()
	return do(t, c, "EXISTS", key) == int64(1)
}

func TestKeysExpireByTheMastersClock(t *testing.T) {
	bubbled(t, 2, func(t *testing.T, m *fakeredis.Master) {
		c := dial(t, m)
		do(t, c, "SET", "k", "v", "PX", 100)
		time.Sleep(30 * time.Millisecond)
		testkit.Equal(t, do(t, c, "PTTL", "k"), any(int64(40)), "what is left of 100 ms after 60 of the master's time")
		time.Sleep(20 * time.Millisecond)
		testkit.Check(t, exists(t, c, "k"), "the key is gone within the millisecond in which it expires")
		time.Sleep(500 * time.Microsecond)
		testkit.Check(t, !exists(t, c, "k"), "the key outlives its time")
	})
}

func TestCrash(t *testing.T) {
	for keeps, want := range map[fakeredis.Memory]string{
		fakeredis.Nothing: "", fakeredis.LastSave: "before", fakeredis.Everything: "before after",
	} {
		bubbled(t, 1, func(t *testing.T, m *fakeredis.Master) {
			c := dial(t, m)
			do(t, c, "SET", "before", "x")
			m.Save()
			do(t, c, "SET", "after", "x")
			old := runID(t, c)
			m.Crash(keeps)
			_, err := c.Do("PING")
			testkit.Check(t, err != nil, "a connection outlives the process")
			_, err = dial(t, m).Do("PING")
			testkit.Check(t, err != nil, "a process that has ended answers")
			m.Start()
			c = dial(t, m)
			testkit.Check(t, runID(t, c) != old, "the new process has the old one's run id")
			kept := ""
			for _, key := range []string{"before", "after"} {
				if exists(t, c, key) {
					kept = strings.TrimSpace(kept + " " + key)
				}
			}
			testkit.Check(t, kept == want, "kept %q, want %q", kept, want)
		})
	}
}

func runID(t *testing.T, c redis.Conn) string {
	t.Helper()
	info := testkit.Got(redis.String(c.Do("INFO", "server")))(t)
	return testkit.Field(t, info, "run_id")
}

func TestScriptsAreForgotten(t *testing.T) {
	bubbled(t, 1, func(t *testing.T, m *fakeredis.Master) {
		c := dial(t, m)
		call := operators.Inspect(scripts.NewName("k"))
		name, args := call.Command(nil, false, scripts.ConnArgs{})
		wantKnown := func(want bool, what string) {
			t.Helper()
			_, err := c.Do(name, args...)
			testkit.Check(t, want && err == nil || !want && err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT"), "a script that %s: %v", what, err)
		}
		wantKnown(false, "was not loaded")
		for _, s := range scripts.All() {
			do(t, c, "SCRIPT", "LOAD", s.Source())
		}
		wantKnown(true, "was loaded")
		m.FlushScripts()
		wantKnown(false, "was flushed")
		byText, source := call.Command(nil, true, scripts.ConnArgs{})
		do(t, c, byText, source...)
		wantKnown(true, "ran by its source")
	})
}
