package fakeredis

import (
	"math"
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	readerPrefix = scripts.Prefix + "reader:"
	writerPrefix = scripts.Prefix + "writer:"
)

const free = -2 // the time to live of no key

// read is read.lua.
func read(k *Keyspace, keys, args []string) any {
	owner, channel, key := ownerOf(keys[1]), channelAt(keys[0], keys[5]), keys[5]
	reader, lease, carried, seed, expected := readerPrefix+owner, millis(args[0]), or(args[1], 0), or(args[2], 0), args[3]
	k.call("MGET")
	_, released, _ := k.get(keys[1])
	if released || carried > 0 && carried <= or(k.Get(keys[4]), -1) {
		return []any{"released", int64(0)}
	}
	marker := k.Get(keys[0])
	admitted, isItsOwn, ok := accepts(marker, expected, k.anyList)
	if !ok {
		return []any{"marker", marker, expected}
	}

	k.call("TIME")
	k.call("PTTL")
	ttl, ends, level, holder, held := k.pttl(key), int64(-1), "", "", int64(free)
	isLevel, isStale := false, false
	if ttl != -2 {
		v, err := k.findSet("ZRANGE", key)
		switch {
		case err == nil:
			k.call("ZREVRANGE")
			_, end := v.firstReader()
			last, _ := v.lastReader()
			if isStale = end < k.now; isStale || !v.isRead(false) || !strings.HasPrefix(last, readerPrefix) {
				k.lockAt(key, isStale)
			}
			k.call("ZSCORE")
			if until, there := v.scores[reader]; there && until >= k.now {
				ends = until
			}
		case !isWrongType(err):
			fail(err)
		default:
			k.call("HGET")
			level, isLevel, err = k.hget(key, owner)
			fail(err)
			if !isLevel {
				if ttl == -1 || k.fields(key) > 1 {
					k.lockAt(key, false)
				}
				k.call("HKEYS")
				held, holder = ttl, k.oneField(key)
			}
		}
	}
	counter := need(k.counter(keys[2]))

	isThere, quarantineOver := ends >= 0 || isLevel, false
	if carried == 0 || !isThere {
		var refusal []any
		if refusal, quarantineOver = k.refusesFresh(marker, expected, admitted, isItsOwn); refusal != nil {
			return refusal
		}
	}
	if _, waits, _ := k.get(keys[3]); held == free && carried == 0 && !isThere && waits {
		waiting := k.waiting(channel)
		k.call("PTTL")
		return []any{"reserved", k.pttl(keys[3]), waiting}
	}
	if held != free {
		return []any{"held", held, k.waiting(channel), holder[:min(len(holder), 1024)]}
	}

	token := tokenOf(keys[2], counter, carried, seed, !isThere)
	if quarantineOver {
		k.callSet(keys[0], "0"+strings.TrimPrefix(marker, admitted), 0)
	}
	if isLevel && ttl != -1 {
		k.call("PEXPIRE")
		k.raise(key, lease)
	}
	k.callSet(keys[2], whole(token), 0)
	last := k.now + max(ttl, lease)
	if ends = max(ends, k.now+lease); isLevel {
		ends = last
	}
	if isStale {
		k.call("ZREMRANGEBYSCORE")
		k.zremOver(key)
	}
	if isLevel {
		k.call("HDEL")
		k.hdel(key, owner)
	}
	err := k.try("ZADD")
	if err == nil {
		err = by("ZADD", k.zadd(key, reader, ends))
	}
	if err != nil {
		if isLevel {
			k.call("HSET")
			need(k.hset(key, owner, level))
			if ttl != -1 {
				k.call("PEXPIRE")
				k.pexpire(key, max(ttl, 1))
			}
		}
		fail(err)
	}
	if ttl != -1 || isLevel {
		if err := k.try("PEXPIREAT"); err != nil {
			if !isThere && k.may("ZREM") == nil {
				k.zrem(key, reader)
			}
			fail(err)
		}
		k.values[key].expires = last
	}
	if isLevel {
		k.tell(channel)
	}
	return int64(token)
}

// zadd sets a member's score.
func (k *Keyspace) zadd(key, member string, score int64) error {
	v, err := k.typed(key, aSet)
	if err != nil {
		return err
	}
	if v == nil {
		v = &value{kind: aSet, scores: map[string]int64{}}
		k.values[key] = v
	}
	v.scores[member] = score
	return nil
}

// zrem deletes a member, and the key with the last one.
func (k *Keyspace) zrem(key, member string) (found bool) {
	v := k.find(key)
	_, found = v.scores[member]
	if delete(v.scores, member); len(v.scores) == 0 {
		delete(k.values, key)
	}
	return found
}

// zremOver deletes the members whose scores have passed, and the key with the last one.
func (k *Keyspace) zremOver(key string) {
	for member, ends := range k.values[key].scores {
		if ends < k.now {
			k.zrem(key, member)
		}
	}
}

// firstReader returns the member with the lowest score, by Redis' order.
func (v *value) firstReader() (member string, ends int64) {
	ends = math.MaxInt64
	for m, score := range v.scores {
		if score < ends || score == ends && m < member {
			member, ends = m, score
		}
	}
	return member, ends
}

// isRead reports whether the first member, or all are readers.
func (v *value) isRead(all bool) bool {
	first, _ := v.firstReader()
	for member := range v.scores {
		if (all || member == first) && !strings.HasPrefix(member, readerPrefix) {
			return false
		}
	}
	return true
}

// lastReader returns the member with the highest score, by Redis' order.
func (v *value) lastReader() (member string, ends int64) {
	ends = math.MinInt64
	for m, score := range v.scores {
		if score > ends || score == ends && m > member {
			member, ends = m, score
		}
	}
	return member, ends
}

// readers returns the end of the last reader's lease, and how many leases are not over.
func (v *value) readers(now int64) (ends, count int64) {
	for _, score := range v.scores {
		count += number(score >= now)
	}
	_, ends = v.lastReader()
	return ends, count
}

// owns reports whether an owner, or a reader, is at a key, as renew sees it. A key of another type, or what
// the user may not see, is an error.
func (k *Keyspace) owns(key, owner string) (bool, error) {
	holder, isReader := strings.CutPrefix(owner, readerPrefix)
	if !isReader {
		return k.hexists(key, owner)
	}
	v, err := k.findSet("ZSCORE", key)
	if err != nil { // a node that has missed the downgrade has the hash
		there, isNoHash := k.hexists(key, holder)
		if isWrongType(isNoHash) {
			return false, err
		}
		return there, isNoHash
	}
	k.call("TIME")
	if v == nil {
		return false, nil
	}
	ends, there := v.scores[owner]
	return there && ends >= k.now, nil
}

// findSet is find for a command on sorted sets.
func (k *Keyspace) findSet(command, key string) (*value, error) {
	if err := k.try(command); err != nil {
		return nil, err
	}
	return k.typed(key, aSet)
}

// prolong is what renew does for an owner that is there. It reports whether the server let it.
func (k *Keyspace) prolong(key, owner string, lease int64) bool {
	v := k.find(key)
	if v.kind != aSet {
		if k.may("PEXPIRE") != nil { // renew raises by PTTL and PEXPIRE then, and refuses only a lease that has to be raised
			k.prolongKey(key, lease)
		}
		k.raise(key, lease)
		return true
	}
	k.call("PTTL")
	if k.pttl(key) == -1 {
		k.call("PERSIST")
	} else {
		k.call("PEXPIRE")
		k.raise(key, lease)
	}
	if v.scores[owner] < k.now+lease {
		if k.may("ZADD") != nil {
			return false
		}
		v.scores[owner] = k.now + lease
	}
	return true
}

// leave looks for an owner, or a reader, as release does, and with ends takes it out.
func (k *Keyspace) leave(key, owner string, ends bool) (found bool, err error) {
	ofSet, ofHash := "ZSCORE", "HEXISTS"
	if ends {
		ofSet, ofHash = "ZREM", "HDEL"
	}
	holder, isReader := strings.CutPrefix(owner, readerPrefix)
	unclear := error(nil)
	if isReader {
		var v *value
		if v, unclear = k.findSet(ofSet, key); unclear == nil {
			return v != nil && k.leaveSet(v, key, owner, ends), nil
		}
	}
	if err = k.try(ofHash); err == nil && ends {
		found, err = k.hdel(key, holder)
	} else if err == nil {
		_, found, err = k.hget(key, holder)
	}
	if isWrongType(err) && unclear != nil {
		err = unclear
	}
	return found, err
}

func (k *Keyspace) leaveSet(v *value, key, owner string, ends bool) (found bool) {
	if _, found = v.scores[owner]; !ends || !found {
		return found
	}
	found = k.zrem(key, owner)
	if !k.isThere(key) {
		return found
	}
	k.call("ZREVRANGE")
	k.call("TIME")
	if _, last := v.lastReader(); last < k.now {
		k.call("ZRANGE")
		for member := range v.scores {
			if strings.HasPrefix(member, readerPrefix) {
				k.call("ZREM")
				k.zrem(key, member)
			}
		}
	}
	return found
}
