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
func inspect(k *Keyspace, keys, _ []string) any {
	owner, level, ttl := "", "", int64(0)
	readers := int64(0)
	k.call("TIME")
	k.call("PTTL")
	if v := k.find(keys[1]); v != nil {
		owner, level = k.lockAt(keys[1], false)
		if ttl = k.pttl(keys[1]); v.kind == aSet {
			k.call("ZCOUNT")
			var ends int64
			ends, readers = v.readers(k.now)
			owner, ttl = "", max(ends-k.now, 0)
		}
	}
	text, _ := k.callGet(keys[0])
	value, counter := need(k.counter(keys[2])), ""
	if value >= tooHigh {
		fail(counterTooHigh(keys[2]))
	}
	if k.exists(keys[2]) {
		counter = whole(max(value, 0))
	}
	marker := markerOf(text)
	k.call("PTTL")
	return []any{owner, level, ttl, counter, marker, k.now, readers, max(k.pttl(keys[3]), 0)}
}

// markerOf is the text of a marker, if it is not too long.
func markerOf(text string) string {
	if len(text) > maxMarker {
		fail(replyError("QUORUMLOCK the marker is too long"))
	}
	return text
}

// force is force.lua.
func force(k *Keyspace, keys, args []string) any {
	k.call("PTTL")
	there := k.exists(keys[0])
	if there {
		k.lockAt(keys[0], false)
	}
	if args[2] != "0" && k.may("GET") == nil {
		if counter, err := k.counter(keys[1]); err == nil && (counter >= or(args[2], 0) || k.maySet(keys[1], args[2], 0)) {
			k.maySet(keys[2], args[2], millis(args[1]))
		}
	}
	for _, tombstone := range keys[3:] {
		k.maySet(tombstone, "1", millis(args[1]))
	}
	if !there {
		return int64(0)
	}
	k.callDel(keys[0])
	k.tell(args[0])
	return int64(1)
}

// look is look.lua.
func look(k *Keyspace, keys, args []string) any {
	text, _ := k.callGet(keys[0])
	marker := markerOf(text)
	k.call("TIME")
	return []any{marker, k.now, args[0]}
}

// mark is mark.lua.
func mark(k *Keyspace, keys, args []string) any {
	k.call("TIME")
	marker, _ := k.callGet(keys[0])
	text, written := MarkText(marker, args, k.now)
	if !written {
		return []any{int64(0), marker[:min(len(marker), maxMarker)], k.now}
	}
	k.callSet(keys[0], text, 0)
	return []any{int64(1), text, k.now}
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
func introduce(k *Keyspace, keys, args []string) any {
	k.callSet(keys[0], args[0], millis(args[1]))
	return int64(1)
}

// who is who.lua.
func who(k *Keyspace, keys, _ []string) any {
	k.call("MGET")
	found := make([]any, len(keys))
	for i, key := range keys {
		text := k.Get(key)
		if len(text) > 4096 {
			text = ""
		}
		found[i] = text
	}
	return found
}

// lockers is lockers.lua. It looks at all keys in one call.
func lockers(k *Keyspace, _, args []string) any {
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
	return []any{"0", found}
}

// counters is counters.lua.
func counters(k *Keyspace, _, args []string) any {
	k.call("MGET")
	found := []any{}
	first, many := int64(or(args[1], 0)), int64(or(args[2], 0))
	var key []byte // a text for each of 65,536 keys, nearly all missing, would be most of a test's time
	for i := range many {
		key = strconv.AppendInt(append(key[:0], args[0]...), first+i, 10)
		if k.values[string(key)] == nil {
			continue
		}
		if text, there, _ := k.get(string(key)); there {
			found = append(found, i+1, text[:min(len(text), 64)])
		}
	}
	return found
}

// lift is lift.lua.
func lift(k *Keyspace, keys, args []string) any {
	raised := int64(0)
	for i, key := range keys {
		text, there := k.callGet(key)
		if !there {
			text = "-1"
		}
		if need(counterOf(key, text)) < or(args[i], 0) {
			k.callSet(key, args[i], 0)
			raised++
		}
	}
	return raised
}
