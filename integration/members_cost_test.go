package integration_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// ownCommands are those with which the test itself asks; Redis 6 names no subcommands.
var ownCommands = map[string]bool{"info": true, "config|resetstat": true, "config": true, "ping": true}

var commandCalls = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// commandsOf returns how many scripts a master has run since the last reset of its statistics, and
// how many commands these called.
func commandsOf(t *testing.T, m *redistest.Master) (scripts, commands int, all string) {
	t.Helper()
	text, err := redis.String(m.Do("INFO", "commandstats"))
	must(t, err)
	for _, found := range commandCalls.FindAllStringSubmatch(text, -1) {
		calls, err := strconv.Atoi(found[2])
		must(t, err)
		switch name := found[1]; {
		case name == "evalsha" || name == "eval":
			scripts += calls
		case !ownCommands[name]:
			commands += calls
			all += " " + strings.ToUpper(name) + "×" + found[2]
		}
	}
	return scripts, commands, all
}

// The list of masters costs no command: the sums are those of the scripts before there were lists. A
// fresh grant was EXISTS, PTTL, GET, HMGET, HSET, PEXPIRE, SET; a re-entry EXISTS, PTTL, HEXISTS,
// GET, HSET, PTTL, SET, and PEXPIRE if the lease had run on; a renewal of one name HEXISTS, PTTL,
// PEXPIRE, GET, PEXPIRE; a release HDEL, EXISTS, PUBLISH; and an inner unlock HEXISTS, HSET.
func TestMembersCostNoCommands(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	f := fleet(t, 3)
	l := open(t, f, redlock.Open, quorum.WithLease(lease))
	still := l.With(quorum.WithFixedLease(20 * time.Second))
	unlock(t, lock(t, l, "job")) // the first grant writes that the quarantine is over
	noLocks(t, f.Masters)

	measure := func(what string, of int, act func()) {
		t.Helper()
		onAll(t, f, "CONFIG", "RESETSTAT")
		act()
		for _, m := range f.Masters {
			ran, called, all := 0, 0, ""
			eventually(t, patience, func() bool { ran, called, all = commandsOf(t, m); return ran > 0 }, what)
			if called > of*ran || called == 0 {
				t.Errorf("%s: %d scripts called %d commands, %d each before there were lists:%s", what, ran, called, of, all)
			}
			t.Logf("%s: %d scripts, %d commands:%s", what, ran, called, all)
		}
	}

	var outer, inner *quorum.Lock
	measure("acquire", 7, func() { outer = lock(t, still, "job") })
	measure("re-entry", 8, func() { inner = lockWithin(t, outer.Context(), still, "job") })
	measure("inner unlock", 2, func() { unlock(t, inner) })
	measure("release", 3, func() { unlock(t, outer) })
	outer = lock(t, l, "job")
	grantedByAll(t, f.Masters, "job")
	measure("renewal", 5, func() {
		for _, m := range f.Masters {
			eventually(t, patience, func() bool { ran, _, _ := commandsOf(t, m); return ran > 1 }, "two renewals")
		}
	})
	unlock(t, outer)
}
