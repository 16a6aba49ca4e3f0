package fakeredis

import (
	"slices"
	"strings"
)

// acquires is acquires.lua.
func acquires(k *Keyspace, keys, args []string) any {
	n := (len(keys) - 1) / 3
	tombs, counters, hashes := keys[1:1+n], keys[1+n:1+2*n], keys[1+2*n:]
	expected, lease, seeds := args[0], millis(args[1]), args[2:]
	k.call("MGET")
	if !strings.HasPrefix(k.Get(keys[0]), expected) {
		return int64(0)
	}
	k.call("EXISTS")
	someHeld := slices.ContainsFunc(hashes, k.exists)
	replies, usual := make([]any, n), true
	counted, tokens := map[string]bool{}, make([]string, n)
	for i, key := range hashes {
		token := seeds[i]
		if value, found, _ := k.get(counters[i]); !found || len(value) != len(token) || value >= token || !isDigits(value) {
			number, err := k.counter(counters[i])
			if seed := or(token, 0); err != nil || number >= tooHigh-1 {
				token = ""
			} else if number >= seed {
				token, usual = whole(number+1), false
			}
		}
		_, barred, _ := k.get(tombs[i])
		switch {
		case token == "" || barred || counted[counters[i]]:
			replies[i], usual = int64(0), false
		case someHeld && k.isThere(key):
			replies[i], usual = k.heldPlainly(keys[0], key, ownerOf(tombs[i])), false
		default:
			counted[counters[i]] = true
			tokens[i], replies[i] = token, token
		}
	}
	if len(counted) > 0 && k.may("MSET") != nil {
		usual = false
		for i := range tokens {
			if tokens[i] != "" {
				tokens[i], replies[i] = "", int64(0)
			}
		}
	}
	for i := range tokens {
		if tokens[i] != "" {
			k.set(counters[i], tokens[i], 0)
		}
	}
	for i, key := range hashes {
		if tokens[i] == "" {
			continue
		}
		owner := ownerOf(tombs[i])
		err := k.try("HSET")
		if err == nil {
			k.hset(key, owner, "1")
			if err = k.try("PEXPIRE"); err == nil {
				k.pexpire(key, lease)
			} else if k.may("HDEL") == nil {
				k.hdel(key, owner)
			}
		}
		if err != nil {
			replies[i], usual = err, false
		}
	}
	if usual {
		return int64(1)
	}
	return replies
}

// heldPlainly is what acquires replies for a key that exists: 0 if acquire must look closer.
func (k *Keyspace) heldPlainly(marker, key, owner string) any {
	refused := k.may("HKEYS")
	fields, err := k.hlen(key)
	k.call("PTTL")
	ttl := k.pttl(key)
	if refused != nil || err != nil || fields != 1 || ttl < 0 || k.oneField(key) == owner {
		return int64(0)
	}
	holder := k.oneField(key)
	return []any{"held", ttl, k.waiting(channelAt(marker, key)), holder[:min(len(holder), 1024)]}
}

// releases is releases.lua.
func releases(k *Keyspace, keys, args []string) any {
	replies, usual := make([]any, len(keys)), true
	for i, key := range keys {
		deleted, err := false, k.try("HDEL")
		if err == nil {
			deleted, err = k.hdel(key, args[2*i])
		}
		reply := any(number(deleted))
		if deleted {
			if heard := k.tell(args[2*i+1]); heard != 0 {
				reply = []any{int64(1), int64(heard)}
			}
		}
		if err != nil && !isWrongType(err) {
			reply = err
		}
		usual = usual && reply == any(int64(1))
		replies[i] = reply
	}
	if usual {
		return int64(1)
	}
	return replies
}
