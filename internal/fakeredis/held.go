package fakeredis

import "strings"

// renew is renew.lua.
func renew(k *Keyspace, keys, args []string) any {
	names := (len(keys) - 1) / 2
	lease, tokens, expected := millis(args[names]), args[names+1], args[names+2]
	k.call("MGET")
	marker := k.Get(keys[0])
	_, isItsOwn, isAccepted := accepts(marker, expected, k.anyList)
	out := make([]byte, 0, names)
	for i := range names {
		key, owner, counterKey, digits := keys[1+names+i], args[i], keys[1+i], tokens[16*i:16*i+16]
		token := or(digits, 0)
		there, err := k.owns(key, owner)
		switch {
		case there && !isAccepted:
			out = append(out, 'N')
		case there && !k.prolong(key, owner, lease):
			out = append(out, 'F')
		case there:
			text := k.Get(counterKey)
			counter, err := k.counter(counterKey)
			if (len(text) != 16 || text < digits) && err == nil && counter < token && k.may("GET") == nil {
				k.maySet(counterKey, whole(token), 0)
			}
			out = append(out, 'R')
		case err == nil && !k.isThere(key):
			out = append(out, 'G')
		case err == nil || isWrongType(err):
			out = append(out, 'T')
		default:
			fail(err)
		}
	}
	if !isAccepted || !isItsOwn {
		return []any{"marker", marker, expected, string(out)}
	}
	return string(out)
}

// release is release.lua.
func release(k *Keyspace, keys, args []string) any {
	short := len(args) == 2
	if short {
		keys, args = []string{"", keys[0]}, []string{args[0], "0", args[1], "0"}
	}
	owner, level, last := args[0], args[1], args[len(args)-1]
	found, heard, failure := int64(0), 0, error(nil)
	names := len(args) - 3
	for i, key := range keys[1 : 1+names] {
		there, err := k.leave(key, owner, level == "0")
		switch {
		case err != nil && !isWrongType(err):
			failure = err
		case !there:
		case level != "0":
			found++
			if !strings.HasPrefix(owner, readerPrefix) && k.may("HSET") == nil {
				k.hset(key, owner, level)
			}
		default:
			found++
			if !short && k.isThere(key) {
				break
			}
			if told := k.tell(args[2+i]); told < 0 || heard >= 0 && told > heard {
				heard = told
			}
		}
	}
	for i, key := range keys[1+names:] {
		if k.may("GET") == nil && k.Get(key) == owner && k.may("DEL") == nil && k.Delete(key) {
			k.tell(args[2+i])
		}
	}
	if last != "0" {
		k.maySet(keys[0], "1", millis(last))
	}
	fail(failure)
	if heard != 0 {
		return []any{found, int64(heard)}
	}
	return found
}

// isThere is EXISTS.
func (k *Keyspace) isThere(key string) bool {
	k.call("EXISTS")
	return k.exists(key)
}

// slots is slots.lua.
func slots(k *Keyspace, keys, args []string) any {
	digits, least := make([]byte, len(keys)), int64(-1)
	for i, key := range keys {
		k.call("PTTL")
		digits[i] = '0'
		if !k.exists(key) {
			continue
		}
		digits[i] = '1'
		if ttl := k.pttl(key); ttl >= 0 && (least < 0 || ttl < least) {
			least = ttl
		}
	}
	return []any{string(digits), least, k.waiting(args[0])}
}

// raise is raise.lua.
func raise(k *Keyspace, keys, args []string) any {
	owner, token := args[0], or(args[1], 0)
	find, findOther, ofMode, ofOther := "HEXISTS", "ZSCORE", aHash, aSet
	if strings.HasPrefix(owner, readerPrefix) {
		find, findOther, ofMode, ofOther = findOther, find, ofOther, ofMode
		k.call("TIME")
	}
	highest := token
	for i := 0; i < len(keys); i += 2 {
		fail(k.try(find))
		v := k.find(keys[i])
		switch {
		case v == nil:
			v = &value{}
		case v.kind == ofOther && k.may(findOther) == nil:
			return int64(0)
		case v.kind != ofMode:
			fail(errWrongType)
		}
		ends, there := v.scores[owner]
		if there = there && ends >= k.now; ofMode == aHash {
			_, there = v.hash[owner]
		}
		if !there {
			return int64(0)
		}
	}
	for i := 1; i < len(keys); i += 2 {
		text, found := k.callGet(keys[i])
		counter := -1.0
		if found {
			counter = need(counterOf(keys[i], text))
		}
		if counter >= tooHigh {
			fail(counterTooHigh(keys[i]))
		}
		if !found || counter < token {
			k.callSet(keys[i], args[1], 0)
		}
		highest = max(highest, counter)
	}
	return int64(highest)
}
