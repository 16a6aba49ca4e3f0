package fakeredis

import "math"

const tooHigh = 1 << 53

// acquire is acquire.lua.
func acquire(k *keyspace, keys, args []string) (any, error) {
	owner, level, lease := args[0], args[1], millis(args[2])
	carried, seed := or(args[3], 0), or(args[4], 0)

	if k.exists(keys[1]) {
		return []any{"released", int64(0)}, nil
	}

	names, mine, counter := 0, 0, 0.0
	held, remaining := false, int64(0)
	for i := 2; i < len(keys); i += 2 {
		names++
		fields, err := k.hlen(keys[i])
		if err != nil {
			return nil, err
		}
		if fields > 0 {
			if _, there, _ := k.hget(keys[i], owner); there {
				mine++
			} else {
				ttl := k.pttl(keys[i])
				if ttl == -1 || fields > 1 {
					if _, _, err := k.lockAt(keys[i]); err != nil {
						return nil, err
					}
				}
				switch {
				case ttl < 0 || held && remaining == -1:
					remaining = -1
				case !held || ttl > remaining:
					remaining = ttl
				}
				held = true
			}
		}
		text, found, err := k.get(keys[i+1])
		if err != nil {
			return nil, err
		}
		if found {
			c, ok := tonumber(text)
			if !ok || math.IsNaN(c) {
				return nil, replyError(`QUORUMLOCK the token counter "` + shown(keys[i+1]) + `" is not a number`)
			}
			counter = max(counter, c)
		}
	}

	passed := false
	if carried == 0 || mine < names {
		var refusal any
		var err error
		if refusal, passed, err = quarantine(k, keys[0], args[6], args[8]); refusal != nil || err != nil {
			return refusal, err
		}
	}
	if held {
		return []any{"held", remaining, k.listening(args[7])}, nil
	}

	token := counter
	if carried > 0 {
		token = max(token, carried)
	} else {
		if mine < names {
			token++
		}
		token = max(token, seed)
	}
	if token >= tooHigh {
		return nil, replyError("QUORUMLOCK the token counter has reached 2^53")
	}

	if passed {
		if _, err := k.hset(keys[0], "admitted", "0"); err != nil {
			return nil, err
		}
	}
	for i := 2; i < len(keys); i += 2 {
		fresh, err := k.hset(keys[i], owner, level)
		if err != nil {
			return nil, err
		}
		if fresh {
			k.pexpire(keys[i], lease)
		} else {
			k.raise(keys[i], lease)
		}
		k.set(keys[i+1], whole(token), millis(args[5]))
	}
	return integer(token), nil
}

// quarantine returns the refusal of a node that may have forgotten grants, nil for an admitted
// node. passed reports whether this call is the first to see that the quarantine has passed.
func quarantine(k *keyspace, key, maxLease, runID string) (refusal any, passed bool, err error) {
	marker, err := k.hmget(key, "run", "admitted", "max")
	if err != nil {
		return nil, false, err
	}
	if marker[0] != runID || marker[2] != maxLease {
		return []any{"stale", int64(0)}, false, nil
	}
	if marker[1] == "0" {
		return nil, false, nil
	}
	left := or(marker[1], math.Inf(1)) - float64(k.now)
	switch {
	case !(left <= or(maxLease, 0)):
		return []any{"stale", int64(0)}, false, nil
	case left > 0:
		return []any{"quarantined", integer(left)}, false, nil
	}
	return nil, true, nil
}
