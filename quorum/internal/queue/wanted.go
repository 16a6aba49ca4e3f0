package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// Wanted is what a call wants: names, or slots of a semaphore. It does not change.
type Wanted struct {
	Names []string       // of the call: for slots, the semaphore's
	Key   Key            // of the queue in which the call waits
	Keys  []scripts.Name // on whose channels releases are published: the names, or the semaphore's one
	Slots int            // how many; 0 for names
}

// Turn makes the attempts at slots that are due.
type Turn func(ctx context.Context, by Attempts, due Due) Result

// Attempts makes the attempts of one call.
type Attempts interface {
	Attempt(ctx context.Context, at Target, approach waiting.Approach) Result
	// HeldBy returns who is known to hold what a refused attempt wanted; "" for nobody. The call must have Tries.
	HeldBy(r Result) (holder string)
	// Full returns the result of a turn that attempts nothing, because too few slots are free, by a hint.
	Full(why string, hint waiting.Result, approach waiting.Approach) Result
	// Tries returns nil for a call that waits for a release.
	Tries() *waiting.Tries
}

// Target is what an attempt asks for, all or nothing.
type Target struct {
	Names       []string       // of the call
	Slots       []int          // of the semaphore Names[0]; nil for names
	Keys        []scripts.Name // of the locks on the nodes
	Hash        uint32         // [Key.Hash]
	First       int            // the node that an attempt by ProbeFirst asks first; −1 for the node of the names
	Predecessor *scripts.Owner // from which to take over; nil for none
}

// Target returns the target of an attempt at the names.
func (w *Wanted) Target() Target {
	return Target{Names: w.Names, Keys: w.Keys, Hash: w.Key.hash, First: -1}
}

// AtSlots returns the target of an attempt at slots of a semaphore.
func AtSlots(semaphore string, slots []int, first int) Target {
	return Target{Names: []string{semaphore}, Slots: slots, Keys: scripts.NewNames(nil, scripts.SlotNames(semaphore, slots)),
		Hash: NewSlotsKey(semaphore, 0).hash, First: first}
}

// Result is the result of an attempt, or of a turn at slots.
type Result struct {
	*engine.Outcome // nil for a lock, unless a hook needs it
	waiting.Result
	Acquired bool
	More     bool // for slots: another one may be free
	MayTry   bool // for a call that waits for no release: nobody is known to hold what it wants
}

// Key is a set of names, in any order, or a semaphore of a size.
type Key struct {
	count   int
	text    string
	readers bool // the queue of readers
	hash    uint32
}

// NewKey returns the key of the names. Readers wait in a queue of their own.
func NewKey(names []string, readers bool) Key {
	text := names[0]
	if len(names) > 1 {
		var b strings.Builder
		for _, name := range slices.Sorted(slices.Values(names)) {
			fmt.Fprintf(&b, "%d:%s", len(name), name)
		}
		text = b.String()
	}
	return Key{count: len(names), text: text, readers: readers, hash: scripts.Hash(text)}
}

// NewSlotsKey returns the key of a semaphore's slots. Each size has a queue of its own.
func NewSlotsKey(semaphore string, size int) Key {
	text := scripts.SlotsName(semaphore)
	return Key{count: size, text: text, hash: scripts.Hash(text)}
}

// Hash returns the hash by which [waiting.History] knows the names: the same for readers, and for each size.
func (k Key) Hash() uint32 { return k.hash }
