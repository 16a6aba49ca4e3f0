package fakeredis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// step is a run of a script, or a change by another hand: an application's, an operator's, or time's.
type step struct {
	what     string // of a change
	change   func(k *Keyspace)
	name     string // of the script
	command  []any
	refusals Refusals
	prefix   string // of all keys and channels
}

func (s step) String() string {
	if s.change != nil {
		return s.what
	}
	keys, args := s.arguments()
	text := fmt.Sprintf("%s keys %.400q args %.400q", s.name, keys, args)
	switch {
	case s.refusals.Full:
		text += " without memory"
	case s.refusals.ReadOnly:
		text += " without replicas"
	case s.refusals.Forbidden != "":
		text += " without " + s.refusals.Forbidden
	}
	return text
}

// arguments are the script's, as texts.
func (s step) arguments() (keys, args []string) {
	texts := make([]string, len(s.command))
	for i, arg := range s.command {
		if b, ok := arg.([]byte); ok {
			arg = string(b)
		}
		texts[i] = fmt.Sprint(arg)
	}
	n := 3 + s.command[2].(int)
	return texts[3:n], texts[n:]
}

var (
	theNames   = []string{"stock:45", "stock:339", scripts.SlotName("s", 0), scripts.SlotName("s", 1), "é\xff\n\x00\x7f\xc3"} // the first two share a counter
	theOwners  = []string{"locker:1", "locker:2", "other:1"}
	theLists   = []*scripts.List{scripts.NewList("a", "b", "c"), scripts.NewList("a", "b", "d"), scripts.NewList()}
	theProcess = scripts.Process{Run: "run", MaxLease: 30 * time.Second, Member: "a"}
	theLeases  = []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}

	// forbidden are the commands of scripts, each of which a user may not run.
	forbidden = []string{"SET", "MSET", "HSET", "ZADD", "DEL", "HDEL", "PEXPIRE", "PEXPIREAT", "PERSIST", "ZREM", "ZREMRANGEBYSCORE",
		"GET", "MGET", "HGET", "HMGET", "HGETALL", "HKEYS", "HLEN", "HEXISTS", "EXISTS", "TYPE", "PTTL", "TIME", "SCAN",
		"ZSCORE", "ZCOUNT", "ZRANGE", "ZREVRANGE", "PUBLISH", "PUBSUB"}
	badCounters = []string{"nan", "inf", "-inf", "0x10", "0X1f", "1e3", "", " 12 ", "-5", "12abc", "1_0", "4503599627370495", "4503599627370496",
		"9007199254740993", "!!!", "0", "7", "1000", "99.5"}
)

// under is a step of a deployment with a prefix. A change has its keys without it.
func (s step) under(prefix string) step {
	if s.prefix = prefix; prefix != "" && s.change != nil {
		change := s.change
		s.change = func(k *Keyspace) {
			k.rename(withoutPrefix)
			change(k)
			k.rename(func(key string) string {
				if strings.HasPrefix(key, scripts.Prefix) {
					return prefix + key
				}
				return prefix + scripts.Prefix + "lock:" + key
			})
		}
	}
	return s
}

const thePrefix = "team:"

// withoutPrefix is a text without the prefix of its keys and channels.
var withoutPrefix = strings.NewReplacer(thePrefix+scripts.Prefix+"lock:", "", thePrefix, "").Replace

func (k *Keyspace) rename(key func(string) string) {
	renamed := map[string]*value{}
	for was, v := range k.values {
		renamed[key(was)] = v
	}
	k.values = renamed
}

// dice makes choices.
type dice struct {
	*rand.Rand
	prefix string
}

func pick[T any](d dice, of []T) T { return of[d.IntN(len(of))] }

// in is true once in n times.
func (d dice) in(n int) bool { return d.IntN(n) == 0 }

func sequence(rng *rand.Rand) (steps []step) {
	d := dice{rng, ""}
	if d.in(3) {
		d.prefix = thePrefix
	}
	marker := func(k *Keyspace) {
		k.Set(scripts.MarkerKey, scripts.Marker{Process: theProcess, Generation: 3, Members: theLists[0], Next: theLists[2]}.String())
	}
	accepts := step{what: "the marker accepts", change: marker}
	unbar := func(k *Keyspace) {
		for _, owner := range theOwners {
			k.Delete(scripts.Prefix + "released:" + owner)
		}
	}
	steps = []step{accepts}
	refusing := d.in(3)
	defer func() {
		for i := range steps {
			steps[i] = steps[i].under(d.prefix)
		}
	}()
	for len(steps) < perSequence {
		switch d.IntN(20) {
		case 0:
			steps = append(steps, accepts)
		case 1:
			steps = append(steps, step{what: "DEL the tombstones", change: unbar})
		}
		if d.in(4) {
			steps = append(steps, d.byHand())
			continue
		}
		s := d.script()
		if refusing && d.in(2) {
			switch d.IntN(6) {
			case 0:
				s.refusals.ReadOnly = true
			case 1, 2:
				s.refusals.Full = true
			default:
				s.refusals.Forbidden = pick(d, forbidden)
			}
		}
		steps = append(steps, s)
	}
	return steps
}

func (d dice) key() string { return pick(d, theNames) }

// anyKey is a key of the scripts, of any kind.
func (d dice) anyKey() string {
	name := scripts.NewName(d.key())
	return pick(d, []string{name.String(), name.String(), name.Counter(), writerPrefix + name.String(), scripts.Prefix + "forced:" + name.String(),
		scripts.Prefix + "released:" + pick(d, theOwners), scripts.MarkerKey, scripts.Prefix + "node", scripts.Prefix + "locker:locker"})
}

// byHand is a change that no script makes.
func (d dice) byHand() step {
	key, owner := d.key(), pick(d, theOwners)
	ms := pick(d, []int64{-5000, -1, 0, 1, 2, 3, 500, 5000, 20000})
	at := func(k *Keyspace) *value {
		v := k.find(key)
		if v == nil {
			v = &value{}
			k.values[key] = v
		}
		return v
	}
	readers := func(k *Keyspace, member string) {
		v := at(k)
		if v.kind != aSet {
			*v = value{kind: aSet, scores: map[string]int64{}}
		}
		v.scores[member] = k.now + ms
	}
	switch d.IntN(14) {
	case 0, 1, 2:
		age := pick(d, []int64{1, 999, 1000, 1001, 9999, 10000, 10001, 31000})
		return step{what: fmt.Sprintf("%d ms pass", age), change: func(k *Keyspace) { pass(k, age) }}
	case 3, 4:
		nth, off := d.IntN(8), pick(d, []int64{-2, -1, 0, 1, 2, 4})
		return step{what: fmt.Sprintf("time passes until instant %d is %d ms away", nth, off), change: func(k *Keyspace) {
			if all := instants(k); len(all) > 0 {
				if age := all[nth%len(all)] - k.now - off; age > 0 {
					pass(k, age)
				}
			}
		}}
	case 5:
		return step{what: "PERSIST " + key, change: func(k *Keyspace) { k.Persist(key) }}
	case 6:
		any := d.anyKey()
		return step{what: "DEL " + any, change: func(k *Keyspace) { k.Delete(any) }}
	case 7:
		any := d.anyKey()
		if d.in(2) {
			return step{what: "RPUSH " + any, change: func(k *Keyspace) { k.values[any] = &value{kind: aList, list: []string{"x"}} }}
		}
		return step{what: "SET " + any + " text", change: func(k *Keyspace) { k.values[any] = &value{kind: aString, text: "text"} }}
	case 8:
		counter, text := scripts.NewName(key).Counter(), pick(d, badCounters)
		return step{what: fmt.Sprintf("SET %s %q", counter, text), change: func(k *Keyspace) { k.Set(counter, text) }}
	case 9:
		field, text := pick(d, []string{"field", owner, owner, "x\n:1", "", "\xff:1", strings.Repeat("long", 300) + ":1"}), pick(d, []string{"1", "2", "", "0", "x", "\xff", "1234567890"})
		isOnly := d.in(2)
		return step{what: fmt.Sprintf("HSET %s %.40q %q (the only field: %t)", key, field, text, isOnly), change: func(k *Keyspace) {
			v := at(k)
			if v.kind != aHash || isOnly {
				*v = value{kind: aHash, hash: map[string]string{}, expires: v.expires}
			}
			v.hash[field] = text
		}}
	case 10:
		return step{what: fmt.Sprintf("ZADD %s now%+d %s", key, ms, readerPrefix+owner), change: func(k *Keyspace) { readers(k, readerPrefix+owner) }}
	case 11:
		member := pick(d, []string{"alice", "", "\xff", readerPrefix, readerPrefix + "\xff:1", readerPrefix + strings.Repeat("long", 300)})
		return step{what: fmt.Sprintf("ZADD %q now%+d %.40q", key, ms, member), change: func(k *Keyspace) { readers(k, member) }}
	case 12:
		any, ttl := d.anyKey(), pick(d, theLeases).Milliseconds()
		return step{what: fmt.Sprintf("PEXPIRE %s %d", any, ttl), change: func(k *Keyspace) { k.pexpire(any, ttl) }}
	default:
		return d.marker()
	}
}

// marker changes the marker.
func (d dice) marker() step {
	in := pick(d, []int64{-1000, 0, 1, 3, 5000, 29999, 30002, 60000})
	m := scripts.Marker{Process: theProcess, Generation: 4, Members: pick(d, theLists[:2]), Next: pick(d, theLists), Claimed: d.in(10)}
	if d.in(8) {
		m.Run = "earlier-run"
	}
	long, garbage := d.in(2), pick(d, []string{"", "", "", "", "", "", "", "", "short", "space", "text", "00", "longer"})
	return step{what: fmt.Sprintf("the marker is %q, admitted in %d ms (long ago: %t), spoilt: %q", m, in, long, garbage), change: func(k *Keyspace) {
		m := m
		if !long {
			m.Admitted = time.Duration(k.now+in) * time.Millisecond
		}
		text := m.String()
		switch garbage {
		case "short":
			text = text[:strings.LastIndexByte(text, '\n')]
		case "space":
			text = strings.Replace(text, " ", "  ", 1)
		case "text":
			text = "text"
		case "00":
			text = "0" + text
		case "longer":
			text += "\nmore " + strings.Repeat("long", 17000)
		}
		k.Set(scripts.MarkerKey, text)
	}}
}

// pass is Age, also for sets that never expire, and for the marker.
func pass(k *Keyspace, ms int64) {
	for key, v := range k.values {
		for member := range v.scores {
			v.scores[member] -= ms
		}
		if v.expires != 0 {
			if v.expires -= ms; v.expires < k.now {
				delete(k.values, key)
			}
		}
	}
	if v := k.values[scripts.MarkerKey]; v != nil && v.kind == aString {
		if m, err := scripts.ParseMarker(v.text); err == nil && m.Admitted > 0 {
			m.Admitted -= time.Duration(ms) * time.Millisecond
			v.text = m.String()
		}
	}
}

// instants are those at which something ends.
func instants(k *Keyspace) (all []int64) {
	for _, v := range k.values {
		if v.expires != 0 {
			all = append(all, v.expires)
		}
		for _, ends := range v.scores {
			all = append(all, ends)
		}
	}
	if m, err := scripts.ParseMarker(k.Get(scripts.MarkerKey)); err == nil && m.Admitted > 0 {
		all = append(all, m.Admitted.Milliseconds())
	}
	slices.Sort(all)
	return all
}

func (d dice) names() []scripts.Name {
	all := make([]scripts.Name, 0, 3)
	for _, i := range d.Perm(len(theNames))[:pick(d, []int{1, 1, 1, 2, 3})] {
		all = append(all, scripts.NewName(theNames[i]))
	}
	return all
}

func (d dice) owner() scripts.Owner { return scripts.OwnerOf(pick(d, theOwners)) }

func (d dice) reads(o scripts.Owner) scripts.Owner {
	if d.in(2) {
		return o.AsReader()
	}
	return o
}

func (d dice) token() uint64 {
	return pick(d, []uint64{1, 5, 8, 100, 101, 1000, 2000, 1 << 51, 1<<52 - 1, 1 << 52})
}

// small is a token as most are, so that counters stay low.
func (d dice) small() uint64 {
	if d.in(8) {
		return d.token()
	}
	return pick(d, []uint64{1, 5, 8, 100})
}

func (d dice) acquire(names []scripts.Name) scripts.AcquireArgs {
	a := scripts.AcquireArgs{Names: names, Owner: d.owner(), Depth: 1 + d.IntN(3), Lease: scripts.ToMillis(pick(d, theLeases)), List: theLists[0], Seed: d.small()}
	if d.in(6) {
		a.List = pick(d, theLists)
	}
	if d.in(3) {
		a.Token = d.small()
	}
	return a
}

// script is a run of one of the scripts.
func (d dice) script() step {
	names := d.names()
	switch n := d.IntN(40); {
	case n < 8:
		a := d.acquire(names)
		switch d.IntN(5) {
		case 0:
			o := d.owner()
			a.Predecessor = &o
		case 1, 2:
			a.Reservation = scripts.ToMillis(2 * time.Second)
		}
		return d.sends(scripts.Acquire(a))
	case n < 15:
		a := d.acquire(names[:1])
		a.Owner = a.Owner.AsReader()
		return d.sends(scripts.Read(a))
	case n == 15:
		return d.sends(scripts.Withdraw(names, d.owner()))
	case n < 19:
		return d.sends(scripts.Release(names, d.reads(d.owner()), max(d.IntN(4)-1, 0)))
	case n < 23:
		var batch []scripts.Renewal
		for range 1 + d.IntN(3) {
			batch = append(batch, scripts.Renewal{Names: d.names(), Owner: d.reads(d.owner()), Token: d.small()})
		}
		return d.sends(scripts.Renew(pick(d, theLists[:1+d.IntN(2)]), scripts.ToMillis(pick(d, theLeases)), batch))
	case n < 26:
		return d.sends(scripts.Raise(names, d.reads(d.owner()), d.small()))
	case n < 28:
		return d.sends(operators.Inspect(names[0]))
	case n < 31:
		return d.run(func(name scripts.Name) scripts.Call {
			a := scripts.AcquireArgs{Names: []scripts.Name{name}, Owner: d.owner(), Depth: 1, Lease: scripts.ToMillis(theLeases[1]), List: theLists[0], Seed: d.small()}
			return scripts.Acquire(a)
		}, "acquires")
	case n < 33:
		return d.run(func(name scripts.Name) scripts.Call { return scripts.Release([]scripts.Name{name}, d.owner(), 0) }, "releases")
	case n < 35:
		readers := uint64(0)
		if d.in(2) {
			readers = d.small()
		}
		owners := make([]scripts.Owner, d.IntN(3))
		for i := range owners {
			owners[i] = d.owner()
		}
		return d.sends(operators.Force(names[0], owners, readers, 30*time.Second))
	}
	switch d.IntN(9) {
	case 0:
		return d.sends(scripts.Look())
	case 1:
		seen := scripts.Seen{Process: theProcess}
		if d.in(2) {
			seen.Marker = scripts.Marker{Process: theProcess, Generation: 3, Members: theLists[0], Next: theLists[2]}.String()
		}
		last := pick(d, []time.Duration{time.Hour, 1 << 62})
		return d.sends(scripts.Mark(seen, scripts.Marker{Members: theLists[0], Next: theLists[2]}, scripts.In(time.Second), scripts.At(time.Hour), last))
	case 2:
		return d.sends(scripts.Introduce("locker", scripts.Identity{Host: "h", PID: 1}, theLists[0], theProcess.MaxLease))
	case 3:
		return d.sends(scripts.Who([]string{"locker", "other"}))
	case 4:
		return d.sends(semaphores.Slots("s", 3))
	case 5:
		return d.sends(operators.Lockers("0"))
	case 6, 7:
		_, number, _ := strings.Cut(scripts.NewName(d.key()).Counter(), scripts.CounterPrefix)
		return d.operates("counters", 0, scripts.CounterPrefix, number, pick(d, []int64{1, 2, 5}))
	default:
		return d.operates("lift", 2, scripts.NewName(d.key()).Counter(), scripts.NewName(theNames[2]).Counter(), int64(d.small()), int64(d.small()))
	}
}

// operates is a run of an operator's script.
func (d dice) operates(name string, args ...any) step {
	all := scripts.All()
	source := all[slices.IndexFunc(all, func(s *scripts.Script) bool { return s.Name() == name })].Source()
	for i, arg := range args {
		if key, isText := arg.(string); isText && strings.HasPrefix(key, scripts.Prefix) {
			args[i] = d.prefix + key
		}
	}
	return step{name: name, command: append([]any{"EVALSHA", shaOf(source)}, args...)}
}

func (d dice) conn(call scripts.Call) scripts.ConnArgs {
	p := theProcess
	if d.in(12) {
		p.Run = "another-run"
	}
	by := scripts.ConnArgs{Process: p.String(), Tombstone: scripts.NoTombstone, Prefix: d.prefix}
	if list := call.List(); list != nil {
		by.Expected = p.Expected(list)
	}
	if d.in(3) {
		by.Tombstone = theProcess.MaxLease.Milliseconds()
	}
	return by
}

func (d dice) sends(call scripts.Call) step {
	command, args := call.Command(nil, false, d.conn(call))
	return step{name: call.Op(), command: append([]any{command}, args...)}
}

func (d dice) run(make func(scripts.Name) scripts.Call, name string) step {
	var calls []scripts.Call
	for range 1 + d.IntN(4) {
		calls = append(calls, make(scripts.NewName(d.key())))
	}
	command, args := scripts.RunCommand(nil, calls, false, d.conn(calls[0]))
	return step{name: name, command: append([]any{command}, args...)}
}
