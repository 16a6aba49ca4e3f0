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
	if err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
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
		if left := do(t, c, "PTTL", "k"); left != int64(40) {
			t.Errorf("after 60 ms of the master's time %v ms are left of 100", left)
		}
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
			if _, err := c.Do("PING"); err == nil {
				t.Error("a connection outlives the process")
			}
			if _, err := dial(t, m).Do("PING"); err == nil {
				t.Error("a process that has ended answers")
			}
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
	info, err := redis.String(c.Do("INFO", "server"))
	_, id, found := strings.Cut(info, "run_id:")
	if err != nil || !found {
		t.Fatalf("INFO server: %q %v", info, err)
	}
	return id[:40]
}

func TestScriptsAreForgotten(t *testing.T) {
	bubbled(t, 1, func(t *testing.T, m *fakeredis.Master) {
		c := dial(t, m)
		call := scripts.Inspect(scripts.NewName("k"))
		name, args := call.Command(nil, false, scripts.ConnArgs{})
		sha := func() error { _, err := c.Do(name, args...); return err }
		if err := sha(); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
			t.Errorf("a script that was not loaded: %v", err)
		}
		for _, s := range scripts.All() {
			do(t, c, "SCRIPT", "LOAD", s.Source())
		}
		if err := sha(); err != nil {
			t.Errorf("a script that was loaded: %v", err)
		}
		m.FlushScripts()
		if err := sha(); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
			t.Errorf("a script that was flushed: %v", err)
		}
		byText, source := call.Command(nil, true, scripts.ConnArgs{})
		do(t, c, byText, source...)
		if err := sha(); err != nil {
			t.Errorf("a script that ran by its source: %v", err)
		}
	})
}
