package scripts

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Name is a lock's name with its keys and its channel, boxed for sending.
type Name struct {
	text                  string
	key, counter, channel any
}

// NewName returns a lock's name, taken byte for byte.
func NewName(name string) Name {
	b := make([]byte, 0, 128)
	b = strconv.AppendInt(append(b, CounterPrefix...), int64(counterNumber(name)), 10)
	end := len(b)
	b = appendChannel(b, name)
	both := string(b) // one allocation for both keys
	return Name{text: name, key: name, counter: both[:end], channel: both[end:]}
}

// NewNames appends locks' names.
func NewNames(to []Name, names []string) []Name {
	for _, name := range names {
		to = append(to, NewName(name))
	}
	return to
}

// TrialName returns a name under which a master is tried, for an id that nobody else uses. All these names share one
// token counter.
func TrialName(id string) Name {
	n := NewName(trialPrefix + id)
	n.counter = NewName(trialPrefix).counter
	return n
}

// TokenCounters is the number of token counters on a node, which all names share. All clients of a
// node must agree on it, and on the hash.
const TokenCounters = 1 << 16

// counterNumber returns the number of a name's token counter: the 32-bit hash FNV-1a, its upper half XORed with its
// lower half.
func counterNumber(name string) int {
	sum := Hash(name)
	return int((sum>>16 ^ sum) % TokenCounters)
}

// Hash is the hash FNV-1a of 32 bits, the same in every process.
func Hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

// Counter returns the key of the token counter, which other names share.
func (n Name) Counter() string { return n.counter.(string) }

// Writer returns the key of the reservation of a writer that waits for readers.
func (n Name) Writer() string { return writerPrefix + n.text }

// Forced returns the key of the bar of a forced release.
func (n Name) Forced() string { return forcedPrefix + n.text }

// String returns the name itself.
func (n Name) String() string { return n.text }

// Channel returns the channel of the name: see the function Channel.
func (n Name) Channel() string { return n.channel.(string) }

// Channel returns the channel on which a release of the lock is published. As in Redisson, a name
// without a "{" gets braces. The slots of a semaphore have one channel.
func Channel(name string) string { return string(appendChannel(make([]byte, 0, 96), name)) }

func appendChannel(b []byte, name string) []byte {
	b, name = append(b, ChannelPrefix...), channelName(name)
	if strings.Contains(name, "{") {
		return append(b, name...)
	}
	return append(append(append(b, '{'), name...), '}')
}

// Owner identifies one attempt to lock: "<locker uuid>:<number>", with the key of its tombstone.
type Owner struct {
	id, tombstone any // strings, boxed for sending
	reads         bool
}

// AsReader returns the owner as a reader, as calls name it.
func (o Owner) AsReader() Owner {
	return Owner{id: readerPrefix + o.id.(string), tombstone: o.tombstone, reads: true}
}

// NewOwner returns an owner of a locker.
func NewOwner(locker string, number uint64) Owner {
	b := make([]byte, 0, 96)
	b = append(append(append(b, tombPrefix...), locker...), ':')
	return newOwner(string(strconv.AppendUint(b, number, 10)))
}

// OwnerOf returns the owner with that id, which a node may have reported.
func OwnerOf(id string) Owner { return newOwner(tombPrefix + id) }

func newOwner(tombstone string) Owner {
	return Owner{id: tombstone[len(tombPrefix):], tombstone: tombstone}
}

// Tombstone returns the key that bars the owner.
func (o Owner) Tombstone() string { return o.tombstone.(string) }

// String returns the owner's id.
func (o Owner) String() string { return o.id.(string) }
