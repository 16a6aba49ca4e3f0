package fakeredis

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxMarker bounds the text of a marker.
const maxMarker = 65536

// inspect is inspect.lua.
func inspect(k *Keyspace, keys, _ []string) (any, error) {
	owner, level, ttl := "", "", int64(0)
	readers := int64(0)
	k.call("TIME")
	k.call("PTTL")
	if v := k.find(keys[1]); v != nil {
		var err error
		if owner, level, err = k.lockAt(keys[1]); err != nil {
			return nil, err
		}
		if ttl = k.pttl(keys[1]); v.kind == aSet {
			k.call("ZCOUNT")
			var ends int64
			ends, readers = v.readers(k.now)
			owner, ttl = "", max(ends-k.now, 0)
		}
	}
	k.call("GET")
	marker, _, err := k.get(keys[0])
	if err != nil {
		return nil, err
	}
	value, found, err := k.counter(keys[2])
	if err != nil {
		return nil, err
	}
	if value >= tooHigh {
		return nil, counterTooHigh(keys[2])
	}
	counter := ""
	if found {
		counter = whole(max(value, 0))
	}
	if len(marker) > maxMarker {
		return nil, replyError("QUORUMLOCK the marker is too long")
	}
	k.call("PTTL")
	return []any{owner, level, ttl, counter, marker, k.now, readers, max(k.pttl(keys[3]), 0)}, nil
}

// force is force.lua.
func force(k *Keyspace, keys, args []string) (any, error) {
	k.call("PTTL")
	there := k.exists(keys[0])
	if there {
		if _, _, err := k.lockAt(keys[0]); err != nil {
			return nil, err
		}
	}
	set := func(key, text string, ttl int64) bool {
		if k.may("SET") != nil {
			return false
		}
		k.set(key, text, ttl)
		return true
	}
	if args[2] != "0" && k.may("GET") == nil {
		if counter, _, err := k.counter(keys[1]); err == nil && (counter >= or(args[2], 0) || set(keys[1], args[2], 0)) {
			set(keys[2], args[2], millis(args[1]))
		}
	}
	for _, tombstone := range keys[3:] {
		set(tombstone, "1", millis(args[1]))
	}
	if !there {
		return int64(0), nil
	}
	k.call("DEL")
	k.delete(keys[0])
	k.tell(args[0])
	return int64(1), nil
}

// look is look.lua.
func look(k *Keyspace, keys, args []string) (any, error) {
	k.call("GET")
	marker, _, err := k.get(keys[0])
	if err != nil {
		return nil, err
	}
	if len(marker) > maxMarker {
		return nil, replyError("QUORUMLOCK the marker is too long")
	}
	k.call("TIME")
	return []any{marker, k.now, args[0]}, nil
}

// mark is mark.lua.
func mark(k *Keyspace, keys, args []string) (any, error) {
	k.call("TIME")
	k.call("GET")
	marker, _, err := k.get(keys[0])
	if err != nil {
		return nil, err
	}
	text, written := MarkText(marker, args, k.now)
	if !written {
		return []any{int64(0), marker[:min(len(marker), maxMarker)], k.now}, nil
	}
	k.call("SET")
	k.set(keys[0], text, 0)
	return []any{int64(1), text, k.now}, nil
}

// MarkText is what mark.lua does with a marker's text, at an instant in ms since 1970. It returns the
// new text, and false when the mark is not written.
func MarkText(marker string, args []string, now int64) (text string, written bool) {
	if marker != args[0] || args[8] != args[9] || now > millis(args[7]) {
		return marker, false
	}
	instant := func(kind, number string) string {
		if kind == "at" {
			return number
		}
		return strconv.FormatInt(now+millis(number), 10)
	}
	return instant(args[1], args[2]) + " " + args[9] + " " + args[3] + " " + instant(args[4], args[5]) + "\n" + args[6], true
}

// introduce is introduce.lua.
func introduce(k *Keyspace, keys, args []string) (any, error) {
	k.call("SET")
	k.set(keys[0], args[0], millis(args[1]))
	return int64(1), nil
}

// who is who.lua.
func who(k *Keyspace, keys, _ []string) (any, error) {
	k.call("MGET")
	found := make([]any, len(keys))
	for i, key := range keys {
		text, _, err := k.get(key)
		if err != nil || len(text) > 4096 { // a key of another type too
			text = ""
		}
		found[i] = text
	}
	return found, nil
}

// lockers is lockers.lua. It looks at all keys in one call.
func lockers(k *Keyspace, _, args []string) (any, error) {
	k.call("SCAN")
	found := []any{}
	for _, key := range slices.Sorted(maps.Keys(k.values)) {
		if !strings.HasPrefix(key, strings.TrimSuffix(args[0], "*")) || !k.exists(key) {
			continue
		}
		k.call("MGET")
		if text, there, _ := k.get(key); there && len(text) <= 4096 && len(key) <= 512 {
			k.call("PTTL")
			found = append(found, key, text, k.pttl(key))
		}
	}
	return []any{"0", found}, nil
}

// counters is counters.lua.
func counters(k *Keyspace, _, args []string) (any, error) {
	k.call("MGET")
	found := []any{}
	first, many := integer(or(args[1], 0)), integer(or(args[2], 0))
	var key []byte // a text for each of 65,536 keys, nearly all missing, would be most of a test's time
	for i := range many {
		key = strconv.AppendInt(append(key[:0], args[0]...), first+i, 10)
		if k.values[string(key)] == nil {
			continue
		}
		if text, there, err := k.get(string(key)); there && err == nil {
			found = append(found, i+1, text[:min(len(text), 64)])
		}
	}
	return found, nil
}

// lift is lift.lua.
func lift(k *Keyspace, keys, args []string) (any, error) {
	raised := int64(0)
	for i, key := range keys {
		k.call("GET")
		text, there, err := k.get(key)
		if err != nil {
			return nil, err
		}
		if !there {
			text = "-1"
		}
		if need(counterOf(key, text)) < or(args[i], 0) {
			k.call("SET")
			k.set(key, args[i], 0)
			raised++
		}
	}
	return raised, nil
}
