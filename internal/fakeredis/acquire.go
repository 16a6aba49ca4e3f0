package fakeredis

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

const tooHigh = 1 << 52

// acquire is acquire.lua.
func acquire(k *Keyspace, keys, args []string) any {
	if len(args) == 3 {
		if usual(k, keys, args) {
			return int64(1)
		}
		args = []string{"1", args[0], "0", args[1], args[2]}
	}
	owner, level, lease := ownerOf(keys[1]), args[0], millis(args[1])
	carried, seed := or(args[2], 0), or(args[3], 0)
	expected, predecessor, reservation := args[len(args)-1], "", int64(0)
	switch {
	case len(keys)%2 == 1:
		predecessor = args[4]
	case len(args) > 5:
		reservation = millis(args[4])
	}
	names := len(keys)/2 - 1
	counters, hashes := keys[2:2+names], keys[2+names:2+2*names]

	k.call("MGET")
	if _, released, _ := k.get(keys[1]); released {
		return []any{"released", int64(0)}
	}
	marker := k.Get(keys[0])
	admitted, isItsOwn, ok := accepts(marker, expected, k.anyList)
	if !ok {
		return []any{"marker", marker, expected}
	}

	mine, inherited, counter, counterAt := 0, 0, 0.0, counters[0]
	held, remaining, heldAt, holder, byReader := false, int64(0), "", "", false
	locks, readers, over := 0, int64(0), []string(nil)
	for i, key := range hashes {
		k.call("PTTL")
		if ttl := k.pttl(key); ttl != -2 {
			there, unclear := k.hexists(key, owner)
			switch {
			case there:
				mine++
			case unclear == nil && predecessor != "" && need(k.hexists(key, predecessor)):
				inherited++
			default:
				last, isRead := "", false
				if unclear != nil || ttl == -1 || k.fields(key) > 1 {
					last, _ = k.lockAt(key, false)
					if isRead = k.find(key).kind == aSet; !isRead {
						fail(unclear)
					}
				}
				ends, count := int64(0), int64(0)
				if isRead {
					k.call("TIME")
					ends, count = k.find(key).readers(k.now)
				}
				if isRead && ends < k.now {
					k.lockAt(key, true)
					over = append(over, key)
					break
				}
				if isRead {
					k.call("ZCOUNT")
					readers, ttl = max(readers, count), ends-k.now
				} else {
					locks++
				}
				switch {
				case ttl < 0 || held && remaining == -1:
					remaining = -1
				case !held || ttl > remaining:
					remaining = ttl
				}
				if !held {
					held, heldAt, holder, byReader = true, key, last, isRead
				}
			}
		}
		if c := need(k.counter(counters[i])); c > counter {
			counter, counterAt = c, counters[i]
		}
	}

	quarantineOver := false
	if carried == 0 || mine < names {
		if admitted != "0" && isItsOwn {
			k.call("TIME")
		}
		var refusal []any
		if refusal, quarantineOver = k.refusesFresh(marker, expected, admitted, isItsOwn); refusal != nil {
			return refusal
		}
	}
	if held {
		if !byReader {
			k.call("HKEYS")
			holder = k.oneField(heldAt)
		}
		reply := []any{"held", remaining, k.waiting(channelAt(keys[0], hashes[0])), holder[:min(len(holder), 1024)]}
		if locks > 0 {
			return reply
		}
		if reservation > 0 {
			for _, key := range hashes {
				k.maySet(reservationAt(keys[0], key), owner, reservation)
			}
		}
		return append(reply, readers)
	}

	if predecessor != "" && carried == 0 && mine+inherited < names {
		k.maySet(keys[len(keys)-1], "1", maxLeaseOf(expected))
		return []any{"passed", int64(0)}
	}

	token := tokenOf(counterAt, counter, carried, seed, mine < names)
	if quarantineOver {
		k.callSet(keys[0], "0"+strings.TrimPrefix(marker, admitted), 0)
	}
	if predecessor != "" {
		k.callSet(keys[len(keys)-1], "1", maxLeaseOf(expected))
	}
	for _, key := range over {
		k.callDel(key)
	}
	if reservation > 0 {
		for _, key := range hashes {
			k.callDel(reservationAt(keys[0], key))
		}
	}
	for i, key := range hashes {
		k.call("HSET")
		if need(k.hset(key, owner, level)) {
			k.expire(key, owner, lease)
			if predecessor != "" {
				k.call("HDEL")
			}
			k.hdel(key, predecessor)
		} else {
			k.prolongKey(key, lease)
		}
		if k.Get(counters[i]) != whole(token) {
			k.callSet(counters[i], whole(token), 0)
		}
	}
	return int64(token)
}

// refusesFresh is the refusal of a fresh grant by a node that accepts the client, or nil: then quarantineOver says whether the
// marker still has a quarantine.
func (k *Keyspace) refusesFresh(marker, expected, admitted string, isItsOwn bool) (refusal []any, quarantineOver bool) {
	left := or(admitted, 0) - float64(k.now)
	switch {
	case !isItsOwn, admitted != "0" && left > float64(maxLeaseOf(expected)):
		return []any{"marker", marker, expected}, false
	case admitted != "0" && left > 0:
		return []any{"quarantined", int64(left)}, false
	}
	return nil, admitted != "0"
}

// maxLeaseOf is the max lease of an expected line.
func maxLeaseOf(expected string) int64 { return millis(strings.Fields(expected)[2]) }

// tokenOf is a grant's token: not below the counter, nor below the one that it carries, or else its seed. A new holder's is
// above the counter.
func tokenOf(counterAt string, counter, carried, seed float64, isNew bool) float64 {
	token := counter + float64(number(isNew && carried == 0))
	if carried == 0 {
		carried = seed
	}
	if token = max(token, carried); token >= tooHigh {
		fail(counterTooHigh(counterAt))
	}
	return token
}

// usual is usual.lua, until acquire goes on.
func usual(k *Keyspace, keys, args []string) (granted bool) {
	lease, seed, expected, key, owner := millis(args[0]), args[1], args[2], keys[3], ownerOf(keys[1])
	k.call("MGET")
	_, released, _ := k.get(keys[1])
	counter := k.Get(keys[2])
	isBelow := len(counter) == len(seed) && counter < seed && isDigits(counter)
	if !isBelow || !strings.HasPrefix(k.Get(keys[0]), expected) || released {
		return false
	}
	k.call("PTTL")
	if k.exists(key) {
		return false
	}
	k.call("HSET")
	need(k.hset(key, owner, "1"))
	k.expire(key, owner, lease)
	k.callSet(keys[2], seed, 0)
	return true
}

// ownerOf is the owner of a tombstone's key.
func ownerOf(tombstone string) string {
	_, owner, _ := strings.Cut(tombstone, scripts.Prefix+"released:")
	return owner
}

// nameAt is the prefix of the deployment whose marker is at that key, and the name of its lock at another.
func nameAt(marker, key string) (prefix, name string) {
	if prefix = strings.TrimSuffix(marker, scripts.MarkerKey); prefix == "" {
		return "", key
	}
	return prefix, strings.TrimPrefix(strings.TrimPrefix(key, prefix), scripts.Prefix+"lock:")
}

// channelAt is the channel of the lock at a key.
func channelAt(marker, key string) string {
	prefix, name := nameAt(marker, key)
	return prefix + scripts.Channel(name)
}

// reservationAt is the key of the reservation of the name at a key.
func reservationAt(marker, key string) string {
	prefix, name := nameAt(marker, key)
	return prefix + writerPrefix + name
}

// expire sets the time to live of a key that has just got the owner. If the user may not, the key loses it again.
func (k *Keyspace) expire(key, owner string, lease int64) {
	if err := k.try("PEXPIRE"); err != nil {
		if k.may("HDEL") == nil {
			k.hdel(key, owner)
		}
		fail(err)
	}
	k.pexpire(key, lease)
}

// hexists is HEXISTS, which the user may not run perhaps.
func (k *Keyspace) hexists(key, field string) (there bool, err error) {
	if err := k.try("HEXISTS"); err != nil {
		return false, err
	}
	_, there, err = k.hget(key, field)
	return there, err
}

// fields is HLEN of a key that may be no hash.
func (k *Keyspace) fields(key string) int {
	k.call("HLEN")
	return need(k.hlen(key))
}

// prolongKey raises a key's time to live.
func (k *Keyspace) prolongKey(key string, lease int64) {
	k.call("PTTL")
	if left := k.pttl(key); left != -1 && left < lease {
		k.call("PEXPIRE")
	}
	k.raise(key, lease)
}

// waiting is PUBSUB NUMSUB, 0 if the user may not ask.
func (k *Keyspace) waiting(channel string) int64 {
	if k.may("PUBSUB") != nil {
		return 0
	}
	return k.listening(channel)
}

// counter reads a token counter by MGET, and by GET if that found none. One that is missing is 0.
func (k *Keyspace) counter(key string) (float64, error) {
	text, found, err := k.get(key)
	if found {
		return counterOf(key, text)
	}
	if refused := k.may("GET"); refused != nil {
		return 0, refused
	}
	if err != nil {
		return 0, counterIsNoNumber(key)
	}
	return 0, nil
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// counterOf is a counter's value.
func counterOf(key, text string) (float64, error) {
	value, ok := tonumber(text)
	if !ok || math.IsNaN(value) {
		return 0, counterIsNoNumber(key)
	}
	return value, nil
}

func counterIsNoNumber(key string) error {
	return replyError(`QUORUMLOCK the token counter "` + key + `" is not a number`)
}

// Accepts reports whether a marker accepts a client that expects that first line, when the node may start to grant to
// it, in ms as text, and whether the node's present process wrote the marker.
func Accepts(marker, expected string) (admitted string, isItsOwn, ok bool) {
	return accepts(marker, expected, false)
}

func counterTooHigh(key string) error {
	return replyError(`QUORUMLOCK the token counter "` + key + `" has reached 2^52: no lock counts that far. Delete the key on this master`)
}

var markersForm = regexp.MustCompile(`^([0-9]+) ([^\t-\r ]+) ([0-9]+) ([^\t-\r ]+) ([^\t-\r ]+)\n[0-9]+ [0-9]+\n[^\n]*\n([^\t-\r ]+)`)

// accepts is the comparison of the marker with the expected first line, and accepts of lists.lua.
func accepts(marker, expected string, anyList bool) (admitted string, isItsOwn, ok bool) {
	if strings.HasPrefix(marker, expected) {
		return "0", true, true
	}
	want, has := strings.Fields(expected), markersForm.FindStringSubmatch(marker)
	if len(want) != 5 || has == nil || !slices.Equal(has[3:5], want[2:4]) {
		return "", false, false
	}
	has, next := has[1:], has[6]
	return has[0], has[1] == want[1], has[4] == want[4] || next == want[4] || anyList
}
