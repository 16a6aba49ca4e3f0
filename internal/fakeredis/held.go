package fakeredis

import "strings"

// renew is renew.lua.
func renew(k *Keyspace, keys, args []string) (any, error) {
	expected, names := args[len(args)-1], (len(keys)-1)/2
	marker, _, _ := k.get(keys[0])
	_, isItsOwn, isAccepted := accepts(marker, expected, k.anyList)
	out := make([]byte, 0, names)
	for i := range names {
		key, counterKey, j := keys[1+names+i], keys[1+i], 3*i
		owner, token, lease := args[j], or(args[j+1], 0), millis(args[j+2])
		there, err := k.owns(key, owner)
		switch {
		case there && !isAccepted:
			out = append(out, 'N')
		case there:
			k.prolong(key, owner, lease)
			if counter, _, err := k.counter(counterKey); err == nil && counter < token {
				k.set(counterKey, args[j+1], 0)
			}
			out = append(out, 'R')
		case err == nil && !k.exists(key):
			out = append(out, 'G')
		default:
			out = append(out, 'T')
		}
	}
	if !isAccepted || !isItsOwn {
		return []any{"marker", marker, expected, string(out)}, nil
	}
	return string(out), nil
}

// release is release.lua.
func release(k *Keyspace, keys, args []string) (any, error) {
	owner, level, last := args[0], args[1], args[len(args)-1]
	found, heard := int64(0), 0
	for i, key := range keys[1:] {
		if level == "0" {
			if k.leave(key, owner) {
				found++
				if !k.exists(key) {
					heard = max(heard, k.publish(args[2+i], "0"))
				}
			}
		} else if there, _ := k.owns(key, owner); there {
			found++
			if !strings.HasPrefix(owner, readerPrefix) {
				k.hset(key, owner, level)
			}
		}
	}
	if last != "0" {
		k.set(keys[0], "1", millis(last))
	}
	if heard > 0 {
		return []any{found, int64(heard)}, nil
	}
	return found, nil
}

// ask is ask.lua.
func ask(k *Keyspace, _, args []string) (any, error) {
	for _, channel := range args[1:] {
		k.publish(channel, args[0])
	}
	return int64(1), nil
}

// slots is slots.lua.
func slots(k *Keyspace, keys, args []string) (any, error) {
	digits, least := make([]byte, len(keys)), int64(-1)
	for i, key := range keys {
		digits[i] = '0'
		if !k.exists(key) {
			continue
		}
		digits[i] = '1'
		if ttl := k.pttl(key); ttl >= 0 && (least < 0 || ttl < least) {
			least = ttl
		}
	}
	return []any{string(digits), least, k.listening(args[0])}, nil
}

// raise is raise.lua.
func raise(k *Keyspace, keys, args []string) (any, error) {
	owner, token := args[0], or(args[1], 0)
	highest := token
	for i := 0; i < len(keys); i += 2 {
		if k.isOfOtherMode(keys[i], owner) {
			return int64(0), nil
		}
		if there, err := k.owns(keys[i], owner); !there || err != nil {
			return int64(0), err
		}
	}
	for i := 1; i < len(keys); i += 2 {
		counter, found, err := k.counter(keys[i])
		if err != nil {
			return nil, err
		}
		if counter >= tooHigh {
			return nil, counterTooHigh(keys[i])
		}
		if !found || counter < token {
			k.set(keys[i], args[1], 0)
		}
		highest = max(highest, counter)
	}
	return integer(highest), nil
}
