package pipeline

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

var errRefused = errors.New("refused")

// releaseOf returns a release of one owner of many.
func releaseOf(i int) request {
	call := scripts.Release([]scripts.Name{scripts.NewName("k")}, scripts.NewOwner("o", uint64(i)), 0)
	return request{call: call, footprint: new(Footprint)}
}

// refusalCount counts the refused releases that are logged.
type refusalCount struct {
	discardLog
	refused int
}

func (c *refusalCount) ReleaseRefused(scripts.Call, error) { c.refused++ }

// The node goes down with each retry of a refused release, which is then owed and refused again.
// The retries still end one max lease after the first refusal, and the log has one line.
func TestARefusedReleaseKeepsItsEndOverOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := unconnected(), new(refusalCount)
		p.cfg.Log = log
		p.goUp(new(Conn))
		r := releaseOf(0)
		began, resent := time.Now(), 0
		p.refused(r, errRefused)
		for time.Since(began) < 3*maxLease {
			testkit.Pass(10 * time.Millisecond)
			p.mu.Lock()
			retried := len(p.queue) > 0
			p.mu.Unlock()
			if !retried {
				continue
			}
			if resent++; time.Since(began) > maxLease {
				t.Fatalf("resent after %v", time.Since(began))
			}
			p.goDown(ErrTimeout)
			p.mu.Lock()
			owed := p.debts.of[r.footprint]
			p.mu.Unlock()
			if owed == nil {
				t.Fatal("the release is not owed")
			}
			p.settle(owed, errRefused)
			if !p.goUp(new(Conn)) {
				t.Fatal("the release is still owed")
			}
		}
		testkit.Check(t, resent >= 5 && len(p.debts.of) == 0, "resent %d times, and %d are left", resent, len(p.debts.of))
		testkit.Equal(t, log.refused, 1, "times that the refusal was logged")
	})
}

// What the server refuses may be due at any time: it does not keep a pipe from coming up again, but is sent soon after the
// pipe is up.
func TestRefusedReleasesDelayNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.goUp(new(Conn))
		for i := range 100 {
			p.refused(releaseOf(i), errRefused)
		}
		p.goDown(ErrTimeout)
		time.Sleep(2 * minRetryPause)
		testkit.Check(t, p.goUp(new(Conn)), "the pipe waits for releases that were refused")
		testkit.Pass(minRetryPause)
		p.mu.Lock()
		defer p.mu.Unlock()
		testkit.Equal(t, len(p.queue), 100, "sent again")
	})
}

// While a release is sent again, others that are refused do not take its place.
func TestARefusedReleaseKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.state = up
		first := releaseOf(0)
		p.refused(first, errRefused)
		testkit.Pass(2 * minRetryPause)
		p.mu.Lock()
		retried := p.queue
		p.queue = nil
		p.mu.Unlock()
		if len(retried) != 1 {
			t.Fatalf("%d are sent again", len(retried))
		}
		for i := range maxRefused + 1 {
			p.refused(releaseOf(i+1), errRefused)
		}
		p.refused(retried[0], errRefused)
		testkit.Equal(t, len(p.debts.of), maxRefused+1, "kept")
		testkit.Check(t, p.debts.of[first.footprint] != nil, "the first is not kept")
		p.state = idle // for Close
		closeAndWait(p)
	})
}

// A release whose key must have expired is not kept.
func TestAReleaseWhoseEndHasComeIsNotKept(t *testing.T) {
	p := unconnected()
	p.state = up
	expired := releaseOf(0)
	expired.retry = &retry{pause: minRetryPause, due: time.Now(), end: time.Now()}
	p.refused(expired, errRefused)
	testkit.Check(t, len(p.debts.of) == 0, "it is kept")
}

// A refused release is kept only if something of its owner's may be there. What proves that there is nothing may come
// when the release is on its way already.
func TestARefusedReleaseOfNothingIsNotKept(t *testing.T) {
	var (
		noKey   = redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
		noWrite = redis.Error("ERR ACL failure in script: User app has no permissions to run the 'pexpire' command")
		noLock  = redis.Error(`QUORUMLOCK the key "k1" holds a hash that is no lock`)
		oom     = redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	)
	for what, test := range map[string]struct {
		replies []any // to the acquire, one after the other; nil: the connection dies
		kept    bool
		again   bool // its owner releases once more, and is heard
	}{
		"granted":                      {replies: []any{int64(7)}, kept: true},
		"granted, and released again":  {replies: []any{int64(7)}, again: true},
		"held by another":              {replies: []any{[]any{bulk("held"), int64(5), int64(0), bulk("x:1")}}},
		"quarantined":                  {replies: []any{[]any{bulk("quarantined"), int64(5)}}},
		"not accepted":                 {replies: []any{[]any{bulk("marker"), bulk(""), bulk("0 run 30000 a d")}}},
		"the key is forbidden":         {replies: []any{noKey}},
		"a foreign key":                {replies: []any{noLock}},
		"no memory":                    {replies: []any{oom}},
		"a reply that proves nothing":  {replies: []any{noWrite}, kept: true},
		"a malformed reply":            {replies: []any{bulk("what?")}, kept: true},
		"resent, then forbidden":       {replies: []any{nil, noKey}, kept: true},
		"resent, then held":            {replies: []any{nil, []any{bulk("held"), int64(5), int64(0), bulk("x:1")}}, kept: true},
		"the script is sent as text":   {replies: []any{redis.Error("NOSCRIPT No matching script."), noKey}},
		"the second request is denied": {replies: []any{int64(7), noKey}, kept: true},
	} {
		t.Run(what, func(t *testing.T) {
			asked, released := 0, false
			reply := func(command string) any {
				if strings.HasPrefix(command, "release") {
					if released {
						return int64(1)
					}
					released = true
					return noKey
				}
				asked++
				return test.replies[asked-1]
			}
			withRuns(t, reply, func(t *testing.T, r *runs) {
				footprints, results := r.start(threeAcquires()[0])
				for range len(test.replies) - 1 {
					if _, isToken := test.replies[0].(int64); isToken { // a repair
						results = append(results, make(resultChan, 1))
						testkit.Must(t, r.pipe.Start(threeAcquires()[0], footprints[0], results[1]))
					}
				}
				close(r.gate)
				synctest.Wait()
				footprints[0].Abandon()
				testkit.Must(t, r.pipe.Start(threeReleases()[0], footprints[0], nil))
				synctest.Wait()
				if asked != len(test.replies) || !released {
					t.Fatalf("%d requests, released %v: the test shows nothing", asked, released)
				}
				if test.again {
					testkit.Must(t, r.pipe.Start(threeReleases()[0], footprints[0], nil))
					synctest.Wait()
				}
				r.commands()
				testkit.Pass(2 * maxRetryPause)
				again := len(r.commands())
				testkit.Check(t, (again > 0) == test.kept, "the release was sent %d times again", again)
			})
		})
	}
}
