package fakeredis

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// runLocked runs a command, except SUBSCRIBE and its like.
func (m *Master) runLocked(s *session, command []string) (any, error) {
	args := command[1:]
	switch name(command) {
	case "PING":
		if len(args) == 1 {
			return args[0], nil
		}
		return status("PONG"), nil
	case "ECHO":
		if len(args) != 1 {
			return nil, errSyntax
		}
		return args[0], nil
	case "TIME":
		now := m.now().UnixMicro()
		return []string{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}, nil
	case "INFO":
		return m.infoLocked(args), nil
	case "CLIENT":
		if len(args) > 0 && strings.EqualFold(args[0], "INFO") {
			return fmt.Sprintf("id=1 addr=%s laddr=%s name= db=0\n", s.conn.RemoteAddr(), s.conn.LocalAddr()), nil
		}
		return ok, nil
	case "CONFIG": // nothing is configured
		return []string{}, nil
	case "SCRIPT":
		return m.scriptLocked(args)
	case "EVAL", "EVALSHA":
		return m.evalLocked(s, name(command) == "EVAL", args)
	case "FLUSHALL":
		clear(m.data)
		return ok, nil
	case "PUBLISH":
		if len(args) != 2 {
			return nil, errSyntax
		}
		return int64(m.publishLocked(args[0], args[1])), nil
	}
	c, known := plain[name(command)]
	if !known {
		return nil, replyError(fmt.Sprintf("ERR unknown command '%.40s'", command[0]))
	}
	if len(args) < c.args {
		return nil, replyError("ERR wrong number of arguments for '" + strings.ToLower(command[0]) + "' command")
	}
	return c.run(m.openLocked(), args)
}

// plain are the commands on keys, with the least number of their arguments.
var plain = map[string]struct {
	args int
	run  func(k *Keyspace, a []string) (any, error)
}{
	"DEL":    {1, func(k *Keyspace, a []string) (any, error) { return count(a, k.Delete), nil }},
	"EXISTS": {1, func(k *Keyspace, a []string) (any, error) { return count(a, k.exists), nil }},
	"KEYS":   {1, func(k *Keyspace, a []string) (any, error) { return k.names(a[0]), nil }},
	"TYPE": {1, func(k *Keyspace, a []string) (any, error) {
		if v := k.find(a[0]); v != nil {
			return status(v.kind), nil
		}
		return status("none"), nil
	}},
	"PTTL": {1, func(k *Keyspace, a []string) (any, error) { return k.pttl(a[0]), nil }},
	"PEXPIRE": {2, func(k *Keyspace, a []string) (any, error) {
		ttl, err := strconv.ParseInt(a[1], 10, 64)
		if err != nil {
			return nil, errNumber
		}
		return number(k.pexpire(a[0], ttl)), nil
	}},
	"GET": {1, func(k *Keyspace, a []string) (any, error) {
		text, found, err := k.get(a[0])
		if !found {
			return nil, err
		}
		return text, nil
	}},
	"SET": {2, func(k *Keyspace, a []string) (any, error) {
		ttl, absent := int64(0), false
		if len(a) > 2 && strings.EqualFold(a[2], "XX") {
			absent, a = !k.exists(a[0]), slices.Delete(slices.Clone(a), 2, 3)
		}
		if len(a) > 2 {
			var err error
			if ttl, err = strconv.ParseInt(a[len(a)-1], 10, 64); err != nil || len(a) != 4 ||
				!strings.EqualFold(a[2], "PX") || ttl <= 0 {
				return nil, errSyntax
			}
		}
		if absent {
			return nil, nil
		}
		k.set(a[0], a[1], ttl)
		return ok, nil
	}},
	"HSET": {3, func(k *Keyspace, a []string) (any, error) {
		if len(a)%2 == 0 {
			return nil, errSyntax
		}
		added := int64(0)
		for i := 1; i < len(a); i += 2 {
			fresh, err := k.hset(a[0], a[i], a[i+1])
			if err != nil {
				return nil, err
			}
			added += number(fresh)
		}
		return added, nil
	}},
	"HGETALL": {1, func(k *Keyspace, a []string) (any, error) {
		v, err := k.typed(a[0], aHash)
		all := []string{}
		if v != nil {
			for field, text := range v.hash {
				all = append(all, field, text)
			}
		}
		return all, err
	}},
	"ZADD": {3, func(k *Keyspace, a []string) (any, error) { // of one member
		score, err := strconv.ParseInt(a[1], 10, 64)
		if err != nil {
			return nil, errNumber
		}
		return int64(1), k.zadd(a[0], a[2], score)
	}},
	"ZRANGE": {3, func(k *Keyspace, a []string) (any, error) { // all of it, by name, with the scores
		v, err := k.typed(a[0], aSet)
		all := []string{}
		if v != nil {
			for _, member := range slices.Sorted(maps.Keys(v.scores)) {
				all = append(all, member, strconv.FormatInt(v.scores[member], 10))
			}
		}
		return all, err
	}},
	"RPUSH": {2, func(k *Keyspace, a []string) (any, error) {
		v, err := k.typed(a[0], aList)
		if err != nil {
			return nil, err
		}
		if v == nil {
			v = &value{kind: aList}
			k.values[a[0]] = v
		}
		v.list = append(v.list, a[1:]...)
		return int64(len(v.list)), nil
	}},
	"LRANGE": {3, func(k *Keyspace, a []string) (any, error) { // the whole list, whatever the range
		v, err := k.typed(a[0], aList)
		if v == nil {
			return []string{}, err
		}
		return slices.Clone(v.list), nil
	}},
}

func count(keys []string, holds func(string) bool) int64 {
	n := int64(0)
	for _, key := range keys {
		n += number(holds(key))
	}
	return n
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (m *Master) scriptLocked(args []string) (any, error) {
	switch {
	case len(args) == 2 && strings.EqualFold(args[0], "LOAD"):
		sha := shaOf(args[1])
		m.scripts[sha] = true
		return sha, nil
	case len(args) >= 1 && strings.EqualFold(args[0], "EXISTS"):
		known := []any{}
		for _, sha := range args[1:] {
			known = append(known, number(m.scripts[sha]))
		}
		return known, nil
	case len(args) >= 1 && strings.EqualFold(args[0], "FLUSH"):
		clear(m.scripts)
		return ok, nil
	}
	return nil, errSyntax
}

// shaOf computes no SHA-1 of a script that the library sends: Go may forbid it (GODEBUG=fips140=only).
func shaOf(source string) string {
	for _, s := range scripts.All() {
		if s.Source() == source {
			return s.SHA().(string)
		}
	}
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// infoLocked answers INFO with the fields that the library reads: version, run id, uptime,
// eviction, persistence, role.
func (m *Master) infoLocked(asked []string) string {
	var b strings.Builder
	for _, section := range []struct{ name, lines string }{
		{"Server", fmt.Sprintf("redis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\n",
			m.runID, m.now().Sub(m.started)/time.Second)},
		{"Memory", "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"},
		{"Persistence", "loading:0\r\naof_enabled:0\r\n"},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
	} {
		named := func(name string) bool { return strings.EqualFold(name, section.name) }
		if len(asked) == 0 || slices.ContainsFunc(asked, named) {
			b.WriteString("# " + section.name + "\r\n" + section.lines)
		}
	}
	return b.String()
}
