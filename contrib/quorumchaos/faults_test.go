package quorumchaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/masters"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/redlock"
)

// patience bounds what must come, on a busy machine.
const patience = time.Minute

// Every fault does what it says, and leaves the address as it is.
func TestFaults(t *testing.T) {
	for _, kind := range []string{"containers", "processes"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := start(t, kind, 2, Setup{})
			url := c.URLs()[1]
			has := func(what, want string) {
				t.Helper()
				got, err := ask(url, patience, "GET", "k")
				testkit.Require(t, err == nil && got == want, "%s: the master has %q (%v), want %q", what, got, err, want)
			}
			set := func() {
				t.Helper()
				testkit.Got(ask(url, patience, "SET", "k", "v"))(t)
			}
			silent := func(what string) {
				t.Helper()
				got, err := ask(url, time.Second, "PING")
				testkit.Require(t, err != nil, "%s: the master answers %q", what, got)
				_, err = ask(c.URLs()[0], patience, "PING")
				testkit.Require(t, err == nil, "%s: the other master: %v", what, err)
			}
			set()
			c.Kill(1)
			silent("Kill")
			c.Kill(0)
			c.Restart(1) // in the other order: with an address of the engine's choice each would now have the other's
			c.Restart(0)
			has("Restart", "v")
			c.Kill(1)
			c.RestartEmpty(1)
			has("RestartEmpty", "")
			set()
			c.Freeze(1)
			silent("Freeze")
			c.Thaw(1)
			has("Thaw", "v")
			before := testkit.Got(redis.DialURL(url))(t)
			defer before.Close()
			testkit.Got(before.Do("PING"))(t)
			c.Partition(1)
			silent("Partition")
			got, err := redis.String(redis.DoWithTimeout(before, time.Second, "PING"))
			testkit.Check(t, err != nil, "Partition: on the connection that it cut, the master answers %q", got)
			c.Heal(1)
			has("Heal", "v")
			c.Flush(1)
			has("Flush", "")
			for what, fault := range map[string]func(...int){
				"a running master": func(...int) {}, "a killed one": c.Kill, "a frozen one": c.Freeze, "one cut off": c.Partition,
			} {
				set()
				fault(1)
				c.Replace(1)
				has("Replace of "+what, "")
			}
			replica := c.inside().Replica(1)
			set()
			testkit.Check(t, poll.Until(patience, func() bool {
				got, err := redis.String(replica.Do("GET", "k"))
				return err == nil && got == "v"
			}), "the replica never has the key")
			testkit.Got(replica.Do("REPLICAOF", "127.0.0.1", "1"))(t)
			c.Flush(1)
			c.inside().Promote(replica, 1)
			has("Promote", "v")
			left, right := c.Apart("left"), c.Apart("right")
			for what, fault := range map[string]func(...int){"Partition": left.Partition, "LoseReplies": left.LoseReplies,
				"LoseRequests": left.LoseRequests, "Slow": func(i ...int) { left.Slow(5*time.Second, 0, i...) }} {
				fault(1)
				got, err := ask(left.URLs()[1], time.Second, "SET", "k", what)
				testkit.Check(t, err != nil, "%s: the group is answered %q", what, got)
				for k, other := range []string{left.URLs()[0], right.URLs()[1], c.URLs()[1]} {
					_, err := ask(other, patience, "PING")
					testkit.Check(t, err == nil, "%s hits more than its path: %d: %v", what, k, err)
				}
				if left.Heal(1); what == "LoseReplies" {
					has(what, what) // it does what it was asked
				}
				_, err = ask(left.URLs()[1], patience, "PING")
				testkit.Check(t, err == nil, "healed of %s: %v", what, err)
			}
			testkit.Check(t, c.URLs()[1] == url, "the master moved from %s to %s", url, c.URLs()[1])
		})
	}
}

// Of a master with a replica the faults are the primary's. Another one is promoted, and the old one follows it.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := start(t, "processes", 1, Setup{Replicas: 1, Node: []node.Option{node.WithMaxLease(2 * time.Second)}})
	locker := testkit.Got(redlock.Open(c.URLs(), quorum.WithNodeOptions(node.WithMaxLease(2*time.Second))))(t)
	t.Cleanup(func() { testkit.Must(t, locker.Close()) })
	for _, fault := range []struct{ begin, end func(...int) }{{c.Isolate, c.Join}, {c.Freeze, c.Thaw}, {c.Kill, c.Restart}} {
		old := c.inside().Groups[0].Named()
		fault.begin(0)
		testkit.Require(t, poll.Until(patience, func() bool { return c.inside().Groups[0].Named() != old }), "nobody is promoted")
		fault.end(0)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		lock := testkit.Got(locker.Lock(ctx, "k"))(t)
		testkit.Must(t, lock.Unlock(ctx))
		cancel()
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	c := start(t, "processes", 2, Setup{Clocks: true})
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		c.Step(ahead, 1)
		for i, want := range []time.Duration{0, ahead} {
			told := testkit.Got(redis.Strings(c.inside().Servers[i].Do("TIME")))(t)
			seconds, _ := strconv.ParseInt(told[0], 10, 64)
			off := time.Until(time.Unix(seconds, 0)) - want
			testkit.Check(t, off.Abs() < patience, "stepped by %v, master %d is off by %v", ahead, i, off)
		}
	}
}

// New masters are no strangers: an operator has admitted them, with the options' max lease.
func TestMastersAreAdmitted(t *testing.T) {
	t.Parallel()
	tb := &testkit.Recorder{TB: t}
	t.Cleanup(tb.End)
	var c *Cluster
	tb.Run(func() { c = start(tb, "processes", 3, Setup{Node: []node.Option{node.WithMaxLease(time.Hour)}}) })
	if tb.Left != "" {
		t.Skip(tb.Left)
	}
	testkit.Require(t, tb.Died == "", "%v", tb.Died)
	last := tb.Logged[len(tb.Logged)-1]
	testkit.Check(t, strings.HasSuffix(last, ": "+strings.Join(c.URLs(), ", ")), "logged %q, want the URLs %s", last, c.URLs())
	n := testkit.Got(node.Open(c.URLs()[2], node.WithMaxLease(time.Hour), node.WithTimeout(patience)))(t)
	defer n.Close()
	report, err := operator.Check(t.Context(), n)
	testkit.Check(t, err == nil && report.Quarantine == 0 && len(report.Members) == 3 && report.MaxLease == time.Hour,
		"%+v, %v", report, err)
}

// Nothing is left of a test's masters, neither processes nor files. TestReaper and integration/chaos ask for
// containers.
func TestNothingIsLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var urls []string
	t.Run("processes", func(t *testing.T) {
		c := start(t, "processes", 2, Setup{})
		c.Freeze(0)
		c.Partition(1)
		urls = c.URLs()
	})
	for _, url := range urls {
		got, err := ask(url, time.Second, "PING")
		testkit.Check(t, err != nil, "%s answers %q", url, got)
	}
	files, err := os.ReadDir(os.Getenv("TMPDIR"))
	testkit.Check(t, err == nil && len(files) == 0, "left behind: %v, %v", files, err)
}

// A call that makes no sense fails the test, and says why.
func TestBadInput(t *testing.T) {
	forever := Setup{Node: []node.Option{node.WithMaxLease(-1)}}
	for want, call := range map[string]func(tb testing.TB){
		"0 masters: want at least 1":                             func(tb testing.TB) { start(tb, "processes", 0, Setup{}) },
		"max lease":                                              func(tb testing.TB) { start(tb, "processes", 1, forever) },
		"Kill(3): the masters are 0 to 2":                        func(tb testing.TB) { fakes(tb, 3).Kill(3) },
		"Thaw(1): the master is up, not frozen":                  func(tb testing.TB) { fakes(tb, 3).Thaw(1) },
		"want \"containers\" or \"processes\"":                   func(tb testing.TB) { start(tb, "jails", 1, Setup{}) },
		"LoseReplies(0): want a group of clients":                func(tb testing.TB) { fakes(tb, 1).LoseReplies(0) },
		"Kill(1, 2, 1): the masters are 0 to 2, each given once": func(tb testing.TB) { fakes(tb, 3).Kill(1, 2, 1) },
		"Freeze(): no master is given":                           func(tb testing.TB) { fakes(tb, 3).Freeze() },
		"Step(0): it needs Setup.Clocks":                         func(tb testing.TB) { fakes(tb, 1).Step(time.Hour, 0) },
		"Isolate(0): the masters have no replicas":               func(tb testing.TB) { fakes(tb, 1).Isolate(0) },
		"Kill(0): the master is cut off, not up":                 func(tb testing.TB) { c := fakes(tb, 1); c.Partition(0); c.Kill(0) },
		"Freeze(0): broken": func(tb testing.TB) {
			c := fakes(tb, 1)
			c.masters[0].(*fake).err = errors.New("broken")
			c.Freeze(0)
		},
	} {
		tb := &testkit.Recorder{TB: t}
		tb.Run(func() { call(tb) })
		tb.End()
		testkit.Check(t, strings.Contains(tb.Died, want) && strings.HasPrefix(tb.Died, "quorumchaos: "),
			"the test failed with %q, want %q", tb.Died, want)
	}
}

// One seed makes one schedule, whatever the masters take for it.
func TestRandomIsItsSeeds(t *testing.T) {
	play := func(seed uint64, slow time.Duration) (all string) {
		synctest.Test(t, func(t *testing.T) {
			c := fakes(t, 5)
			for _, m := range c.masters {
				m.(*fake).slow = slow
			}
			c.Random(time.Hour, seed)
			for _, m := range c.masters {
				all += fmt.Sprintln(m.(*fake).did)
			}
			c.Judge().Read("r", 1, "") // the judge wants a report
		})
		return all
	}
	testkit.Check(t, play(7, 0) == play(7, 3*time.Second) && play(7, 0) != play(8, 0), "not one schedule for each seed")
}

// The schedule plays every fault, and never makes more than a minority forget within a max lease.
func TestRandomKeepsToTheGuarantees(t *testing.T) {
	for n := 1; n <= 7; n++ {
		synctest.Test(t, func(t *testing.T) {
			tb := &testkit.Recorder{TB: t}
			c := fakes(tb, n)
			c.maxLease = time.Minute
			forgot, halted, most := make([]time.Time, n), 0, 0
			seen := map[string]bool{}
			var mu sync.Mutex
			watch := func(i int, what string) {
				mu.Lock()
				defer mu.Unlock()
				seen[what] = true
				switch what {
				case "Freeze", "Disconnect":
					halted++
					most = max(most, halted)
				case "Thaw", "Reconnect":
					halted--
				default:
					forgot[i] = time.Now()
				}
				lately := 0
				for _, at := range forgot {
					if time.Since(at) <= c.maxLease {
						lately++
					}
				}
				testkit.Check(t, lately <= (n-1)/2, "%d of %d masters forget within a max lease", lately, n)
			}
			for i, m := range c.masters {
				m.(*fake).watch = func(what string) { watch(i, what) }
			}
			c.Random(100*time.Hour, 0)
			want := map[bool]int{false: 4, true: 8}[n > 2]
			testkit.Check(t, len(seen) == want && most == n, "of %d masters: %v; at most %d were halted", n, seen, most)
		})
	}
}

// ask sends one command over a connection of its own. The answer to a key that is not there is "".
func ask(url string, bound time.Duration, command string, args ...any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := redis.DialURLContext(ctx, url, redis.DialReadTimeout(bound))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	got, err := redis.String(conn.Do(command, args...))
	if errors.Is(err, redis.ErrNil) {
		return "", nil
	}
	return got, err
}

// fakes are masters that note what is done to them.
func fakes(tb testing.TB, n int) *Cluster {
	c := newCluster(tb, n)
	for range n {
		c.masters = append(c.masters, &fake{})
	}
	c.maxLease = 30 * time.Second
	return c
}

type fake struct {
	masters.Master
	did   []string
	slow  time.Duration
	err   error
	watch func(what string)
}

func (f *fake) do(what string) error {
	f.did = append(f.did, what)
	if f.watch != nil {
		f.watch(what)
	}
	time.Sleep(f.slow)
	return f.err
}

func (f *fake) Kill() error            { return f.do("Kill") }
func (f *fake) Start() error           { return f.do("Start") }
func (f *fake) Replace() error         { return f.do("Replace") }
func (f *fake) Freeze() error          { return f.do("Freeze") }
func (f *fake) Thaw() error            { return f.do("Thaw") }
func (f *fake) Disconnect() error      { return f.do("Disconnect") }
func (f *fake) Reconnect() error       { return f.do("Reconnect") }
func (f *fake) Do(...any) (any, error) { return nil, f.do("Do") }
