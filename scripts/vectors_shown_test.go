package scripts_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// entry is a key's state, in the words of a state, and what these round. The second copy of a call may raise that.
type entry struct{ shown, exact string }

// now is the server's time.
func (v table) now() time.Duration {
	v.t.Helper()
	parts, err := redis.Int64s(v.s.Do("TIME"))
	if err != nil || len(parts) != 2 {
		v.t.Fatalf("TIME: %v %v", parts, err)
	}
	return time.Duration(parts[0]*1_000_000+parts[1]) * time.Microsecond
}

// snapshot returns the server's keys.
func (v table) snapshot() map[string]entry {
	v.t.Helper()
	keys, err := redis.Strings(v.s.Do("KEYS", "*"))
	testkit.Must(v.t, err)
	state := map[string]entry{}
	for _, key := range keys {
		var e entry
		e.shown, e.exact = v.state(key)
		ms, err := redis.Int64(v.s.Do("PTTL", key))
		testkit.Must(v.t, err)
		if ms >= 0 {
			e.shown += " " + rounded(time.Duration(ms)*time.Millisecond)
		}
		state[key] = e
	}
	return state
}

func (v table) state(key string) (shown, exact string) {
	v.t.Helper()
	kind, err := redis.String(v.s.Do("TYPE", key))
	testkit.Must(v.t, err)
	present := v.now()
	switch kind {
	case "string":
		text, err := redis.String(v.s.Do("GET", key))
		testkit.Must(v.t, err)
		if m, err := scripts.ParseMarker(text); err == nil && key == marker {
			return shownMarker(m, present), text
		}
		if name, ok := v.names[key]; ok {
			return "counter " + quoted(name) + " " + quoted(text), ""
		}
		return "SET " + v.short(key) + " " + wordFor(text), ""
	case "hash":
		fields, err := redis.StringMap(v.s.Do("HGETALL", key))
		testkit.Must(v.t, err)
		what := "HSET " + v.short(key)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if len(fields) == 1 && operators.ValidOwner(field) {
				what = "lock " + v.short(key)
			}
			what += " " + wordFor(field)
			if fields[field] != "1" || !strings.HasPrefix(what, "lock") {
				what += " " + quoted(fields[field])
			}
		}
		return what, ""
	case "list":
		texts, err := redis.Strings(v.s.Do("LRANGE", key, 0, -1))
		testkit.Must(v.t, err)
		return fmt.Sprintf("RPUSH %s %q", v.short(key), texts), ""
	case "zset":
		what := "readers " + quoted(key)
		all, err := redis.StringMap(v.s.Do("ZRANGE", key, 0, -1, "WITHSCORES"))
		testkit.Must(v.t, err)
		for _, member := range slices.Sorted(maps.Keys(all)) {
			owner, ok := strings.CutPrefix(member, reader)
			if what += " "; !ok {
				what += "!"
			}
			what += wordFor(owner) + "/" + all[member]
			if ms, err := strconv.ParseInt(all[member], 10, 64); err == nil && ms > 1e12 {
				what = strings.TrimSuffix(what, all[member]) + rounded(time.Duration(ms)*time.Millisecond-present)
			}
		}
		return what, fmt.Sprint(all)
	}
	v.t.Fatalf("%q is a %s", key, kind)
	return "", ""
}

// shownMarker is a marker's part of a state.
func shownMarker(m scripts.Marker, now time.Duration) string {
	what := "marker"
	add := func(differs bool, format string, args ...any) {
		if differs {
			what += fmt.Sprintf(" "+format, args...)
		}
	}
	add(m.Admitted != 0, "in=%s", instant(m.Admitted, now))
	add(m.Run != process.Run, "run=%s", m.Run)
	add(m.MaxLease != process.MaxLease, "max=%v", m.MaxLease)
	add(m.Member != process.Member, "member=%s", m.Member)
	add(!m.Members.Equal(ours), "members=%q", m.Members.Names())
	add(m.Next.Len() > 0, "next=%q", m.Next.Names())
	add(m.Claimed, "claimed")
	add(m.Generation != 3, "generation=%d", m.Generation)
	add(m.Change != 0, "change=%s", instant(m.Change, now))
	if what == "marker" {
		return "ready"
	}
	return what
}

// instant is a time from now, or since 1970 if it is in that year.
func instant(at, now time.Duration) string {
	if at < 365*24*time.Hour {
		return "@" + at.String()
	}
	return rounded(at - now)
}

// grid has the times that the tables use. From each to the next one it is as long as a row may take on a busy machine.
var grid = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 8 * time.Second, 10 * time.Second, 20 * time.Second,
	30 * time.Second, time.Minute, time.Hour, 2 * time.Hour}

// rounded rounds up, to a time of the grid.
func rounded(d time.Duration) string {
	if d <= 0 {
		return "over"
	}
	for _, to := range grid {
		if d <= to {
			return testkit.Short(to)
		}
	}
	return testkit.Short(d)
}
