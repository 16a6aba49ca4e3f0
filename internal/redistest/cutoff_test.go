package redistest_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestCutOffMasterKeepsWhatItHas(t *testing.T) {
	m := testkit.Embedded(t, 1).Masters[0]
	runID := testkit.Info(t, m, "server", "run_id")
	mustDo(t, m, "SET", "k", "v")
	conn, err := redis.Dial("tcp", m.Addr())
	testkit.Must(t, err)
	defer conn.Close()

	testkit.Must(t, m.CutOff())
	if _, err := conn.Do("PING"); err == nil {
		t.Error("a connection survived")
	}
	if _, err := m.Do("PING"); err == nil {
		t.Error("it answers")
	}
	if m.CutOff() == nil || m.Start() == nil {
		t.Error("cut off twice, or started while it runs")
	}

	testkit.Must(t, m.Reconnect())
	if v := mustDo(t, m, "GET", "k"); v != "v" {
		t.Errorf("the key is %q", v)
	}
	if now := testkit.Info(t, m, "server", "run_id"); now != runID {
		t.Errorf("run id %s, before %s", now, runID)
	}
	if m.Reconnect() == nil {
		t.Error("reconnected while it was not cut off")
	}
}

func TestCutOffMasterCanBeKilled(t *testing.T) {
	fleet := testkit.Embedded(t, 2) // the second is stopped while it is cut off
	m := fleet.Masters[0]
	mustDo(t, m, "SET", "k", "v")
	testkit.Must(t, m.CutOff())
	testkit.Must(t, fleet.Masters[1].CutOff())
	testkit.Must(t, m.Kill())
	if m.CutOff() == nil || m.Reconnect() == nil {
		t.Error("a killed master was cut off, or reconnected")
	}
	testkit.Must(t, m.Start())
	if v := mustDo(t, m, "GET", "k"); v != "" {
		t.Errorf("the key survived: %q", v)
	}
}

func TestFastForward(t *testing.T) {
	const lease = 10 * time.Second
	fleet := testkit.Embedded(t, 3)
	for _, m := range fleet.Masters {
		mustDo(t, m, "SET", "ends", "v", "PX", lease.Milliseconds())
		mustDo(t, m, "SET", "stays", "v", "PX", 3*lease.Milliseconds())
	}
	testkit.Must(t, fleet.Masters[1].CutOff())
	testkit.Must(t, fleet.Masters[2].Kill())
	testkit.Must(t, fleet.FastForward(lease, func() {}))
	testkit.Must(t, fleet.Masters[1].Reconnect())
	testkit.Must(t, fleet.Masters[2].Start())

	for _, m := range fleet.Masters[:2] {
		if ends, stays := mustDo(t, m, "GET", "ends"), mustDo(t, m, "GET", "stays"); ends != "" || stays != "v" {
			t.Errorf("the shorter key is %q, the longer one %q", ends, stays)
		}
		if left, err := redis.Int64(m.Do("PTTL", "stays")); err != nil || left > 2*lease.Milliseconds() {
			t.Errorf("%d ms left, %v", left, err)
		}
	}
	for _, m := range fleet.Masters {
		// TIME agrees with the keys.
		seconds, err := redis.Int64(m.Do("EVAL", "return redis.call('TIME')[1]", 0))
		if ahead := time.Until(time.Unix(seconds+1, 0)); err != nil || ahead < lease-2*time.Second {
			t.Errorf("the server's clock is %v ahead, %v", ahead, err)
		}
	}
}

// A lease is asked for after its client's clock has moved. It must not begin before the master's
// has.
func TestFastForwardLetsNoScriptInBetweenTheClocks(t *testing.T) {
	const lease = 10 * time.Second
	fleet := testkit.Embedded(t, 1)
	m := fleet.Masters[0]
	set := make(chan error, 1)
	testkit.Must(t, fleet.FastForward(lease, func() {
		go func() {
			_, err := m.Do("EVAL", "return redis.call('SET', KEYS[1], 'v', 'PX', ARGV[1])", 1, "k", lease.Milliseconds())
			set <- err
		}()
		ran := time.NewTimer(100 * time.Millisecond)
		defer ran.Stop()
		select {
		case err := <-set:
			t.Errorf("a script ran: %v", err)
			set <- nil
		case <-ran.C:
		}
	}))
	testkit.Must(t, <-set)
	if v := mustDo(t, m, "GET", "k"); v != "v" {
		t.Errorf("the key is %q: its lease was cut short", v)
	}
}

func TestProcessesCannotBeCutOff(t *testing.T) {
	fleet := testkit.Real(t, 1)
	m := fleet.Masters[0]
	if m.CutOff() == nil || m.Reconnect() == nil {
		t.Error("a process was cut off, or reconnected")
	}
	called := false
	if fleet.FastForward(time.Second, func() { called = true }) == nil || called {
		t.Errorf("a process' clock was moved; the others' too: %v", called)
	}
	mustDo(t, m, "PING")
}
