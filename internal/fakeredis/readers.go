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

// read is read.lua.
func read(k *Keyspace, keys, args []string) (any, error) {
	reader, owner, key := args[0], strings.TrimPrefix(args[0], readerPrefix), keys[5]
	lease, carried, seed, expected := millis(args[2]), or(args[3], 0), or(args[4], 0), args[6]
	_, released, _ := k.get(keys[1])
	forced, _, _ := k.get(keys[4])
	if released || carried > 0 && carried <= or(forced, -1) {
		return []any{"released", int64(0)}, nil
	}
	marker, _, _ := k.get(keys[0])
	admitted, isItsOwn, ok := accepts(marker, expected, k.anyList)
	if !ok {
		return []any{"marker", marker, expected}, nil
	}

	ttl, ends, level, holder, held := k.pttl(key), int64(-1), "", "", int64(0)
	switch v := k.find(key); {
	case v == nil:
	case v.kind == aSet:
		if _, _, err := k.lockAt(key); err != nil {
			return nil, err
		}
		if until, there := v.scores[reader]; there && until >= k.now {
			ends = until
		}
	default:
		fields, err := k.hlen(key)
		if err != nil {
			return nil, err
		}
		if level, _, _ = k.hget(key, owner); level == "" {
			if ttl == -1 || fields > 1 {
				if _, _, err := k.lockAt(key); err != nil {
					return nil, err
				}
			}
			held, holder = ttl, k.oneField(key)
		}
	}
	counter, _, err := k.counter(keys[2])
	if err != nil {
		return nil, err
	}

	isThere := ends >= 0 || level != ""
	isFresh, quarantineOver := carried == 0 || !isThere, false
	if isFresh && !isItsOwn {
		return []any{"marker", marker, expected}, nil
	}
	if admitted != "0" && isFresh {
		left := or(admitted, 0) - float64(k.now)
		switch {
		case left > or(strings.Fields(expected)[2], 0):
			return []any{"marker", marker, expected}, nil
		case left > 0:
			return []any{"quarantined", integer(left)}, nil
		}
		quarantineOver = true
	}
	if _, waits, _ := k.get(keys[3]); holder == "" && carried == 0 && !isThere && waits {
		return []any{"reserved", k.pttl(keys[3]), k.listening(args[5])}, nil
	}
	if holder != "" {
		return []any{"held", held, k.listening(args[5]), holder[:min(len(holder), 1024)]}, nil
	}

	token := counter
	if carried > 0 {
		token = max(token, carried)
	} else {
		if !isThere {
			token++
		}
		token = max(token, seed)
	}
	if token >= tooHigh {
		return nil, counterTooHigh(keys[2])
	}
	if quarantineOver {
		k.set(keys[0], "0"+strings.TrimPrefix(marker, admitted), 0)
	}
	k.set(keys[2], whole(token), 0)
	last := k.now + max(ttl, lease)
	if ends = max(ends, k.now+lease); level != "" {
		ends = last
		k.delete(key)
	}
	k.zadd(key, reader, ends)
	k.zremOver(key)
	if ttl != -1 || level != "" {
		k.values[key].expires = last
	}
	if level != "" {
		k.publish(args[5], "0")
	}
	return integer(token), nil
}

// zadd sets a member's score. The key must be a sorted set, or missing.
func (k *Keyspace) zadd(key, member string, score int64) {
	v := k.find(key)
	if v == nil {
		v = &value{kind: aSet, scores: map[string]int64{}}
		k.values[key] = v
	}
	v.scores[member] = score
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

// zremOver deletes the members whose scores have passed.
func (k *Keyspace) zremOver(key string) {
	for member, ends := range k.values[key].scores {
		if ends < k.now {
			delete(k.values[key].scores, member)
		}
	}
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

// readersAt returns the last reader at a key that has no hash, the end of its lease, and how many leases
// are not over. there is false for no sorted set; the error is that of an application's.
func (k *Keyspace) readersAt(key string) (owner string, ends, count int64, there bool, err error) {
	v := k.find(key)
	if v == nil || v.kind != aSet {
		return "", 0, 0, false, nil
	}
	if owner, _, err = k.lockAt(key); err != nil {
		return "", 0, 0, true, err
	}
	for _, score := range v.scores {
		count += number(score >= k.now)
	}
	_, ends = v.lastReader()
	return owner, ends, count, true, nil
}

// isOfOtherMode reports whether readers are at a key where the owner writes, or a writer where it reads.
func (k *Keyspace) isOfOtherMode(key, owner string) bool {
	v, other := k.find(key), aSet
	if strings.HasPrefix(owner, readerPrefix) {
		other = aHash
	}
	return v != nil && v.kind == other
}

// owns reports whether an owner, or a reader, is at a key, as renew and release see it; and raise, at a key
// of the owner's mode. A key of another type is an error.
func (k *Keyspace) owns(key, owner string) (bool, error) {
	if v := k.find(key); v != nil && v.kind == aSet && strings.HasPrefix(owner, readerPrefix) {
		ends, there := v.scores[owner]
		return there && ends >= k.now, nil
	}
	_, there, err := k.hget(key, strings.TrimPrefix(owner, readerPrefix))
	return there, err
}

// prolong is what renew does for an owner that is there.
func (k *Keyspace) prolong(key, owner string, lease int64) {
	if v := k.find(key); v.kind == aSet {
		v.scores[owner] = max(v.scores[owner], k.now+lease)
	}
	k.raise(key, lease)
}

// leave is what release does for an owner at level 0.
func (k *Keyspace) leave(key, owner string) (found bool) {
	v := k.find(key)
	if v == nil || v.kind != aSet || !strings.HasPrefix(owner, readerPrefix) {
		found, _ = k.hdel(key, strings.TrimPrefix(owner, readerPrefix))
		return found
	}
	found = k.zrem(key, owner)
	if _, ends := v.lastReader(); found && ends < k.now {
		k.delete(key)
	}
	return found
}
