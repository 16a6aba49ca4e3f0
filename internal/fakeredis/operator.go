package fakeredis

import "math"

const year = 365 * 24 * 60 * 60 * 1000 // in ms

// inspect is inspect.lua.
func inspect(k *keyspace, keys, _ []string) (any, error) {
	owner, level, ttl := "", "", int64(0)
	if k.exists(keys[1]) {
		var err error
		if owner, level, err = k.lockAt(keys[1]); err != nil {
			return nil, err
		}
		ttl = k.pttl(keys[1])
	}
	marker, err := k.hmget(keys[0], "run", "admitted")
	if err != nil {
		return nil, err
	}
	run, left := marker[0], or(marker[1], math.Inf(1))-float64(k.now)
	if !(left <= year) {
		run, left = "", 0
	}
	counter, _, err := k.get(keys[2])
	if err != nil {
		return nil, err
	}
	if len(owner)+len(level)+len(counter)+len(run) > 4096 {
		return nil, replyError("QUORUMLOCK what is at the name is too long: it is not a lock")
	}
	return []any{owner, level, ttl, counter, run, integer(max(left, 0))}, nil
}

// force is force.lua.
func force(k *keyspace, keys, args []string) (any, error) {
	there := k.exists(keys[0])
	if there {
		if _, _, err := k.lockAt(keys[0]); err != nil {
			return nil, err
		}
	}
	for _, tombstone := range keys[1:] {
		k.set(tombstone, "1", millis(args[1]))
	}
	if !there {
		return int64(0), nil
	}
	k.delete(keys[0])
	k.publish(args[0], "0")
	return int64(1), nil
}

// admit is admit.lua.
func admit(k *keyspace, keys, args []string) (any, error) {
	marker, err := k.hmget(keys[0], "run", "admitted", "max")
	if err != nil {
		return nil, err
	}
	now, maxLease, quarantine, run := float64(k.now), args[0], or(args[1], 0), args[3]
	written, isNumber := tonumber(marker[1])

	admitted := written
	switch {
	case args[2] == "1":
		admitted = now
	case marker[2] != "" && marker[2] != maxLease:
		return []any{"maxlease", integer(or(marker[2], 0))}, nil
	case marker[0] != run || !isNumber || math.IsNaN(written):
		admitted = now + quarantine
	case admitted > now+quarantine:
		admitted = now + quarantine
	}
	if marker[0] != run || marker[2] != maxLease || !isNumber || written != admitted {
		for _, field := range [][2]string{{"run", run}, {"max", maxLease}, {"admitted", whole(admitted)}} {
			if _, err := k.hset(keys[0], field[0], field[1]); err != nil {
				return nil, err
			}
		}
	}
	return integer(max(admitted-now, 0)), nil
}
