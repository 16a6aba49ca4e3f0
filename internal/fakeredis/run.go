package fakeredis

import (
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

// acquires is acquires.lua.
func acquires(k *Keyspace, keys, args []string) (any, error) {
	n := (len(keys) - 1) / 3
	tombs, counters, hashes := keys[1:1+n], keys[1+n:1+2*n], keys[1+2*n:]
	expected, lease, seeds := args[0], millis(args[1]), args[2:]
	if marker, _, _ := k.get(keys[0]); !strings.HasPrefix(marker, expected) {
		return int64(0), nil
	}
	replies, usual := make([]any, n), true
	counted, tokens := map[string]bool{}, make([]string, n)
	for i, key := range hashes {
		token, _, err := k.counter(counters[i])
		_, barred, _ := k.get(tombs[i])
		switch {
		case barred || counted[counters[i]] || err != nil || token >= tooHigh-1:
			replies[i], usual = int64(0), false
			continue
		case k.exists(key):
			replies[i], usual = k.heldPlainly(key, strings.TrimPrefix(tombs[i], scripts.Prefix+"released:")), false
			continue
		}
		counted[counters[i]] = true
		if seed := or(seeds[i], 0); token < seed {
			token = seed
		} else {
			token++
			usual = false
		}
		tokens[i] = whole(token)
		replies[i] = tokens[i]
	}
	for i, key := range hashes {
		if tokens[i] != "" {
			k.set(counters[i], tokens[i], 0)
			k.hset(key, strings.TrimPrefix(tombs[i], scripts.Prefix+"released:"), "1")
			k.pexpire(key, lease)
		}
	}
	if usual {
		return int64(1), nil
	}
	return replies, nil
}

// heldPlainly is what acquires replies for a key that exists: 0 if acquire must look closer.
func (k *Keyspace) heldPlainly(key, owner string) any {
	fields, err := k.hlen(key)
	ttl := k.pttl(key)
	if err != nil || fields != 1 || ttl < 0 || k.oneField(key) == owner {
		return int64(0)
	}
	holder := k.oneField(key)
	return []any{"held", ttl, k.listening(scripts.Channel(key)), holder[:min(len(holder), 1024)]}
}

// releases is releases.lua.
func releases(k *Keyspace, keys, args []string) (any, error) {
	replies, usual := make([]any, len(keys)), true
	for i, key := range keys {
		deleted, _ := k.hdel(key, args[2*i])
		reply := any(number(deleted))
		if deleted {
			if heard := k.publish(args[2*i+1], "0"); heard > 0 {
				reply = []any{int64(1), int64(heard)}
			}
		}
		usual = usual && reply == any(int64(1))
		replies[i] = reply
	}
	if usual {
		return int64(1), nil
	}
	return replies, nil
}
