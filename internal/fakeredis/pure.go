package fakeredis

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// NewKeyspace returns the data of a master that has none, at an instant of its clock. Nobody listens to
// its channels.
func NewKeyspace(now time.Time) *Keyspace {
	return &Keyspace{values: map[string]*value{}, now: now.UnixMilli(),
		publish: func(string, string) int { return 0 }, listening: func(string) int64 { return 0 }}
}

// Run carries out a call as it comes over a connection, and returns what [scripts.Call.Parse] takes.
func (k *Keyspace) Run(call scripts.Call, conn scripts.ConnArgs) (any, error) {
	_, args := call.Command(nil, false, conn)
	texts := make([]string, len(args))
	for i, arg := range args {
		if b, ok := arg.([]byte); ok {
			texts[i] = string(b)
		} else {
			texts[i] = fmt.Sprint(arg)
		}
	}
	script, known := bySHA()[texts[0]]
	if !known {
		return nil, errNoScript
	}
	keys := args[1].(int)
	reply, err := k.run(script.run, texts[2:2+keys], texts[2+keys:])
	return received(reply), err
}

// received is a reply as a client reads it.
func received(reply any) any {
	switch r := reply.(type) {
	case string:
		return []byte(r)
	case []any:
		all := make([]any, len(r))
		for i := range r {
			all[i] = received(r[i])
		}
		return all
	}
	return reply
}

// Clone returns a copy that shares nothing with the data.
func (k *Keyspace) Clone() *Keyspace {
	copied := *k
	copied.values = clone(k.values)
	return &copied
}

// Age takes d off all times to live. The present instant stays.
func (k *Keyspace) Age(d time.Duration) {
	for key, v := range k.values {
		if v.expires != 0 {
			v.expires -= d.Milliseconds()
			for member := range v.scores {
				v.scores[member] -= d.Milliseconds()
			}
			k.find(key)
		}
	}
}

// Get returns a string; empty without the key.
func (k *Keyspace) Get(key string) string {
	text, _, _ := k.get(key)
	return text
}

// Set writes a string that does not expire.
func (k *Keyspace) Set(key, text string) { k.set(key, text, 0) }

// Fields returns the hash at a key; nil without the key.
func (k *Keyspace) Fields(key string) map[string]string {
	if v := k.find(key); v != nil {
		return v.hash
	}
	return nil
}

// Scores returns the sorted set at a key; nil without the key.
func (k *Keyspace) Scores(key string) map[string]int64 {
	if v := k.find(key); v != nil {
		return v.scores
	}
	return nil
}

// Reads reports whether an owner is a reader at a key, and its lease is not over.
func (k *Keyspace) Reads(key, owner string) bool {
	v := k.find(key)
	return v != nil && v.kind == aSet && v.scores[readerPrefix+owner] >= k.now
}

// TTL returns a key's time to live.
func (k *Keyspace) TTL(key string) time.Duration {
	return time.Duration(k.pttl(key)) * time.Millisecond
}

// Persist takes a key's time to live away.
func (k *Keyspace) Persist(key string) {
	if v := k.find(key); v != nil {
		v.expires = 0
	}
}

// Refuses reports whether the server refuses anything.
func (k *Keyspace) Refuses() bool { return k.refusals != nil }

// AppendKey appends the data, with times to live in place of instants, and what the server refuses. Each key and field
// is renamed first.
func (k *Keyspace) AppendKey(b []byte, rename func(string) string) []byte {
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	names := map[string]string{}
	for _, key := range k.names("*") {
		names[rename(key)] = key
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		v := k.values[names[name]]
		text(name)
		left := int64(-1)
		if v.expires != 0 {
			left = v.expires - k.now
		}
		b = binary.AppendVarint(b, left)
		text(v.text)
		fields := map[string]string{}
		for field, level := range v.hash {
			fields[rename(field)] = level
		}
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			text(field)
			text(fields[field])
		}
		readers := map[string]int64{}
		for reader, ends := range v.scores {
			readers[rename(reader)] = max(ends-k.now, -1)
		}
		for _, reader := range slices.Sorted(maps.Keys(readers)) {
			text(reader)
			b = binary.AppendVarint(b, readers[reader])
		}
		text("")
	}
	if k.refusals != nil {
		b = fmt.Append(b, *k.refusals)
	}
	return b
}
