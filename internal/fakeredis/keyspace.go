package fakeredis

import (
	"slices"
	"strings"
)

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

const (
	errWrongType replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errNoScript  replyError = "NOSCRIPT No matching script. Please use EVAL."
	errSyntax    replyError = "ERR syntax error"
	errNumber    replyError = "ERR value is not an integer or out of range"
	errForbidden replyError = "ERR The user executing the script can't run this command or subcommand"
	errNoKey     replyError = "NOPERM No permissions to access a key"
	errReadOnly  replyError = "NOREPLICAS Not enough good replicas to write."
	errFull      replyError = "OOM command not allowed when used memory > 'maxmemory'."
)

type kind string

const (
	aString kind = "string"
	aHash   kind = "hash"
	aList   kind = "list"
	aSet    kind = "zset"
)

type value struct {
	kind    kind
	text    string
	hash    map[string]string
	list    []string
	scores  map[string]int64 // of a sorted set
	expires int64            // in ms of the master's time; 0 for never
}

// Keyspace is a master's data at one moment, and the pure part of a master: no network, no mutex and no
// clock. See pure.go for what searches need of it.
type Keyspace struct {
	values  map[string]*value
	now     int64
	publish func(channel, payload string) int
	// listening is PUBSUB NUMSUB of one channel.
	listening func(channel string) int64
	anyList   bool // see Master.AnyList
	refusals  *Refusals
	wrote     bool // the script that runs has written
}

// find returns nil for a key that is missing or has expired. As in Redis, a key is still there in
// the millisecond in which it expires.
func (k *Keyspace) find(key string) *value {
	v := k.values[key]
	if v != nil && v.expires != 0 && k.now > v.expires {
		delete(k.values, key)
		return nil
	}
	return v
}

// sweep deletes the keys that have expired.
func (k *Keyspace) sweep() {
	for key := range k.values {
		k.find(key)
	}
}

// typed is find for a command on keys of one type.
func (k *Keyspace) typed(key string, want kind) (*value, error) {
	v := k.find(key)
	if v != nil && v.kind != want {
		return nil, errWrongType
	}
	return v, nil
}

func (k *Keyspace) exists(key string) bool { return k.find(key) != nil }

// Delete deletes a key, and reports whether it was there.
func (k *Keyspace) Delete(key string) bool {
	found := k.exists(key)
	delete(k.values, key)
	return found
}

func (k *Keyspace) get(key string) (text string, found bool, err error) {
	v, err := k.typed(key, aString)
	if v == nil {
		return "", false, err
	}
	return v.text, true, nil
}

// set writes a string over any value. A ttl of 0 is for ever.
func (k *Keyspace) set(key, text string, ttl int64) {
	v := &value{kind: aString, text: text}
	if ttl > 0 {
		v.expires = k.now + ttl
	}
	k.values[key] = v
}

func (k *Keyspace) hget(key, field string) (text string, found bool, err error) {
	v, err := k.typed(key, aHash)
	if v == nil {
		return "", false, err
	}
	text, found = v.hash[field]
	return text, found, nil
}

func (k *Keyspace) hlen(key string) (int, error) {
	v, err := k.typed(key, aHash)
	if v == nil {
		return 0, err
	}
	return len(v.hash), nil
}

// oneField returns a field of a hash that has one.
func (k *Keyspace) oneField(key string) string {
	for field := range k.find(key).hash {
		return field
	}
	return ""
}

func (k *Keyspace) hset(key, field, text string) (added bool, err error) {
	v, err := k.typed(key, aHash)
	if err != nil {
		return false, err
	}
	if v == nil {
		v = &value{kind: aHash, hash: map[string]string{}}
		k.values[key] = v
	}
	_, there := v.hash[field]
	v.hash[field] = text
	return !there, nil
}

// hdel deletes a field, and the key with the last one.
func (k *Keyspace) hdel(key, field string) (found bool, err error) {
	v, err := k.typed(key, aHash)
	if v == nil {
		return false, err
	}
	_, found = v.hash[field]
	delete(v.hash, field)
	if len(v.hash) == 0 {
		delete(k.values, key)
	}
	return found, nil
}

// pttl returns −1 for a key without a time to live, −2 for a missing key.
func (k *Keyspace) pttl(key string) int64 {
	switch v := k.find(key); {
	case v == nil:
		return -2
	case v.expires == 0:
		return -1
	default:
		return v.expires - k.now
	}
}

func (k *Keyspace) pexpire(key string, ttl int64) bool {
	v := k.find(key)
	switch {
	case v == nil:
		return false
	case ttl <= 0:
		delete(k.values, key)
	default:
		v.expires = k.now + ttl
	}
	return true
}

// raise is pexpire, but never shortens. A key without a time to live keeps none.
func (k *Keyspace) raise(key string, ttl int64) {
	if left := k.pttl(key); left != -1 && left < ttl {
		k.pexpire(key, ttl)
	}
}

// names returns the keys that match, sorted.
func (k *Keyspace) names(pattern string) []string {
	var names []string
	for key := range k.values {
		if k.exists(key) && matches(pattern, key) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// matches knows one of Redis' patterns: a star at the end.
func matches(pattern, text string) bool {
	if prefix, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}
