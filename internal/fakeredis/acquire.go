package fakeredis

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

const tooHigh = 1 << 52

// acquire is acquire.lua.
func acquire(k *Keyspace, keys, args []string) (any, error) {
	owner, level, lease := args[0], args[1], millis(args[2])
	carried, seed := or(args[3], 0), or(args[4], 0)
	expected, predecessor, reservation := args[len(args)-1], "", int64(0)
	switch {
	case len(keys)%2 == 1:
		predecessor = args[6]
	case len(args) > 7:
		reservation = millis(args[6])
	}
	names := len(keys)/2 - 1
	counters, hashes := keys[2:2+names], keys[2+names:2+2*names]

	if _, released, _ := k.get(keys[1]); released {
		return []any{"released", int64(0)}, nil
	}
	marker, _, _ := k.get(keys[0])
	admitted, isItsOwn, ok := accepts(marker, expected, k.anyList)
	if !ok {
		return []any{"marker", marker, expected}, nil
	}

	mine, inherited, counter, counterAt := 0, 0, 0.0, counters[0]
	held, remaining, holder, locks, readers, over := false, int64(0), "", 0, int64(0), []string(nil)
	for i, key := range hashes {
		last, ends, count, isRead, err := k.readersAt(key)
		fields := 0
		if err == nil && !isRead {
			fields, err = k.hlen(key)
		}
		switch {
		case err != nil:
			return nil, err
		case isRead && ends < k.now:
			over = append(over, key)
		case isRead:
			readers = max(readers, count)
			if remaining != -1 {
				remaining = max(remaining, ends-k.now)
			}
			if !held {
				held, holder = true, last
			}
		case fields > 0:
			if _, there, _ := k.hget(key, owner); there {
				mine++
			} else if k.isAt(key, predecessor) {
				inherited++
			} else {
				ttl := k.pttl(key)
				locks++
				if ttl == -1 || fields > 1 {
					if _, _, err := k.lockAt(key); err != nil {
						return nil, err
					}
				}
				switch {
				case ttl < 0 || held && remaining == -1:
					remaining = -1
				case !held || ttl > remaining:
					remaining = ttl
				}
				if !held {
					held, holder = true, k.oneField(key)
				}
			}
		}
		c, _, err := k.counter(counters[i])
		if err != nil {
			return nil, err
		}
		if c > counter {
			counter, counterAt = c, counters[i]
		}
	}

	isFresh, quarantineOver := carried == 0 || mine < names, false
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
	if held {
		reply := []any{"held", remaining, k.listening(args[5]), holder[:min(len(holder), 1024)]}
		if locks > 0 {
			return reply, nil
		}
		if reservation > 0 {
			for _, key := range hashes {
				k.set(writerPrefix+key, owner, reservation)
			}
		}
		return append(reply, readers), nil
	}

	if predecessor != "" && carried == 0 && mine+inherited < names {
		return []any{"passed", int64(0)}, nil
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
		return nil, counterTooHigh(counterAt)
	}

	if quarantineOver {
		k.set(keys[0], "0"+strings.TrimPrefix(marker, admitted), 0)
	}
	if predecessor != "" {
		k.set(keys[len(keys)-1], "1", millis(strings.Fields(expected)[2]))
	}
	for _, key := range over {
		k.delete(key)
	}
	for i, key := range hashes {
		if reservation > 0 {
			k.delete(writerPrefix + key)
		}
		fresh, err := k.hset(key, owner, level)
		if err != nil {
			return nil, err
		}
		if fresh {
			k.pexpire(key, lease)
			k.hdel(key, predecessor)
		} else {
			k.raise(key, lease)
		}
		k.set(counters[i], whole(token), 0)
	}
	return integer(token), nil
}

// isAt reports whether an owner, if there is one, holds the lock at a key.
func (k *Keyspace) isAt(key, owner string) bool {
	_, there, _ := k.hget(key, owner)
	return there && owner != ""
}

// counter reads a token counter.
func (k *Keyspace) counter(key string) (value float64, found bool, err error) {
	text, found, err := k.get(key)
	if err == nil && !found {
		return 0, false, nil
	}
	value, ok := tonumber(text)
	if err != nil || !ok || math.IsNaN(value) {
		return 0, false, replyError(`QUORUMLOCK the token counter "` + key + `" is not a number`)
	}
	return value, true, nil
}

// Accepts reports whether a marker accepts a client that expects that first line, from when on the
// node grants to it, in ms as text, and whether the marker is that of the node's process.
func Accepts(marker, expected string) (admitted string, isItsOwn, ok bool) {
	return accepts(marker, expected, false)
}

func counterTooHigh(key string) error {
	return replyError(`QUORUMLOCK the token counter "` + key + `" has reached 2^52: no lock counts that far. Delete the key on this master`)
}

// accepts is the comparison of the marker with the expected first line, and accepts of lists.lua. A
// marker that no script has written accepts nobody.
func accepts(marker, expected string, anyList bool) (admitted string, isItsOwn, ok bool) {
	if strings.HasPrefix(marker, expected) {
		return "0", true, true
	}
	lines := strings.Split(marker, "\n")
	want := strings.Fields(expected)
	has := strings.Fields(lines[0])
	if len(lines) != 4 || len(want) != 5 || len(has) != 5 || !slices.Equal(has[2:4], want[2:4]) {
		return "", false, false
	}
	if _, err := strconv.ParseUint(has[0], 10, 64); err != nil {
		return "", false, false
	}
	next, _, _ := strings.Cut(lines[3], " ")
	return has[0], has[1] == want[1], has[4] == want[4] || next == want[4] || anyList
}
