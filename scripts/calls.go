package scripts

import (
	"slices"
	"strconv"
	"time"
)

// Call is one run of a script. It is immutable: one Call may go to many nodes, and be resent.
type Call struct {
	script *Script
	args   []any     // the arguments of EVALSHA
	frees  bool      // a release to depth 0
	reads  bool      // a release of a reader
	bars   bool      // a release with its own tombstone: see ReleaseBarred
	batch  []Renewal // of renew
	list   *List     // of acquire and renew: the client's list of masters
}

// Call returns a call of a script of another package. args are the number of keys, the keys, and the other arguments.
func (s *Script) Call(args ...any) Call { return Call{script: s, args: append([]any{s.sha}, args...)} }

// Op returns the script's name, for errors.
func (c Call) Op() string { return c.script.name }

// IsAcquire reports whether the call is a request for a grant.
func (c Call) IsAcquire() bool { return c.script == acquireScript || c.script == readScript }

// IsRelease reports whether the call is a release, to any depth. A release must reach its node.
func (c Call) IsRelease() bool { return c.script == releaseScript }

// Frees reports whether the call is a release to depth 0, which ends the owner's hold.
func (c Call) Frees() bool { return c.frees }

// Bars reports whether the call is a release that bars its owner, who is not the caller: see [ReleaseBarred].
func (c Call) Bars() bool { return c.bars }

// Released returns the owner's id and the names of a release, for the log. The call must be a
// release.
func (c Call) Released() (owner string, names []string) {
	keys := c.args[1].(int)
	for _, name := range c.args[3 : 3+len(c.args)-5-keys] { // without reservations
		names = append(names, name.(string))
	}
	return c.args[2+keys].(string), names
}

// List returns the client's list of masters, which an acquire, a read and a renewal carry; else nil.
func (c Call) List() *List { return c.list }

// ConnArgs are the arguments of a call that depend on its connection, boxed for sending.
type ConnArgs struct {
	Process   any    // for look and mark: [Process.String]
	Expected  any    // for acquire, read and renew: [Process.Expected] of the call's list
	Tombstone any    // for release: how long, in ms, it bars its owner from a grant that arrives late; or NoTombstone
	Prefix    string // of all keys and channels: [KeyPrefix]
}

// NoTombstone is the Tombstone of a release whose owner has no request that may arrive late.
var NoTombstone any = "0"

// Command returns the command's name, and dst with the command's arguments appended. With source,
// the command carries the script's text in place of its hash.
func (c Call) Command(dst []any, source bool, conn ConnArgs) (string, []any) {
	start := len(dst)
	switch short := c.hasShortForm(); {
	case short && c.script == acquireScript: // see usual.lua
		dst = append(append(dst, c.args[0], 4), c.args[acquireTomb-1:acquireKey+1]...)
		dst = append(dst, c.args[acquireLease], c.args[acquireSeed], conn.Expected)
	case short && conn.Tombstone == NoTombstone: // see release.lua
		dst = append(dst, c.args[0], 1, c.args[releaseKey], c.args[releaseOwner], c.args[releaseChannel])
	default:
		dst = append(dst, c.args...)
		c.fill(dst, conn)
	}
	return c.script.command(dst, start, source, conn.Prefix)
}

// hasShortForm reports whether the script also takes the call with fewer arguments. An acquire with a seed of 0 or 1 has
// no short form: its reply of 1 would be ambiguous.
func (c Call) hasShortForm() bool {
	return c.CanShare() && (c.script == releaseScript || c.args[acquireSeed].(int64) > 1)
}

// fill sets the argument that depends on the connection, the last one.
func (c Call) fill(args []any, conn ConnArgs) {
	last := &args[len(args)-1]
	switch c.script {
	case acquireScript, readScript, renewScript:
		*last = conn.Expected
	case lookScript, markScript:
		*last = conn.Process
	case releaseScript:
		if !c.bars {
			*last = conn.Tombstone
		}
	}
}

// AcquireArgs are the arguments of [Acquire].
type AcquireArgs struct {
	Names []Name
	Owner Owner
	Depth int
	Lease Millis
	List  *List  // the client's list of masters
	Token uint64 // 0 for a fresh grant; the lock's token for a re-entry or a repair
	Seed  uint64 // the least token of a grant, at which a lost counter restarts: the client's clock in µs
	// Predecessor is the owner that this one replaces; nil for none. A fresh grant then needs it at every
	// name.
	Predecessor *Owner
	// Reservation is how long a waiting writer keeps new readers back, if only readers are in its way. It is the zero
	// Millis for all other calls, and with a Predecessor.
	Reservation Millis
}

// Acquire requests a grant of all names or none. The connection adds the marker's first line that
// the client expects ([ConnArgs]).
func Acquire(a AcquireArgs) Call {
	keys := 2 + 2*len(a.Names)
	if a.Predecessor != nil {
		keys++
	}
	args := append(make([]any, 0, acquireArgs), acquireScript.sha, keys, any(MarkerKey), a.Owner.tombstone)
	args = appendKeys(args, a.Names)
	if a.Predecessor != nil {
		args = append(args, a.Predecessor.tombstone)
	}
	args = append(args, a.Depth, a.Lease.boxed, int64(a.Token), int64(a.Seed))
	switch {
	case a.Predecessor != nil:
		args = append(args, a.Predecessor.id)
	case a.Reservation.boxed != nil:
		args = append(args, a.Reservation.boxed)
	}
	return Call{script: acquireScript, args: append(args, ""), list: a.List}
}

// Read requests a grant of the one name to a reader. If the owner holds the name already, it becomes a
// reader. The owner is [Owner.AsReader].
func Read(a AcquireArgs) Call {
	n := a.Names[0]
	args := []any{readScript.sha, 6, any(MarkerKey), a.Owner.tombstone, n.counter, n.Writer(), n.Forced(),
		n.key, a.Lease.boxed, int64(a.Token), int64(a.Seed), ""}
	return Call{script: readScript, args: args, list: a.List}
}

// The positions of the arguments of an acquire of one name, and their number: run.go reads them there. A call with
// more or fewer arguments shares no run.
const (
	acquireTomb    = 3
	acquireCounter = 4
	acquireKey     = 5
	acquireDepth   = 6
	acquireLease   = 7
	acquireToken   = 8
	acquireSeed    = 9
	acquireArgs    = 11
)

// appendKeys appends the counters of the names, then their hashes.
func appendKeys(args []any, names []Name) []any {
	for _, n := range names {
		args = append(args, n.counter)
	}
	for _, n := range names {
		args = append(args, n.key)
	}
	return args
}

// Renewal is one lock in a batch for [Renew].
type Renewal struct {
	Names []Name
	Owner Owner
	Token uint64
}

// Renew raises the time to live of each lock whose owner is still there, on a node that accepts
// clients with that list. The connection adds the marker's first line that they expect
// ([ConnArgs]).
func Renew(list *List, lease Millis, batch []Renewal) Call {
	names := make([]Name, 0, len(batch))
	for _, r := range batch {
		names = append(names, r.Names...)
	}
	args := make([]any, 0, 6+3*len(names))
	args = append(args, renewScript.sha, 1+2*len(names), any(MarkerKey))
	args = appendKeys(args, names)
	tokens := make([]byte, 0, 16*len(names))
	for _, r := range batch {
		digits := strconv.FormatUint(1e16+r.Token, 10)[1:]
		for range r.Names {
			args, tokens = append(args, r.Owner.id), append(tokens, digits...)
		}
	}
	return Call{script: renewScript, args: append(args, lease.boxed, string(tokens), ""), batch: batch, list: list}
}

// Release releases the names at depth 0, and otherwise lowers the lock to that depth. The connection
// decides whether the owner gets a tombstone ([ConnArgs]).
func Release(names []Name, owner Owner, depth int) Call {
	args := append(make([]any, 0, 6+2*len(names)), releaseScript.sha, 1+len(names), owner.tombstone)
	for _, n := range names {
		args = append(args, n.key)
	}
	args = append(args, owner.id, depth)
	for _, n := range names {
		args = append(args, n.channel)
	}
	return Call{script: releaseScript, args: append(args, NoTombstone), frees: depth == 0, reads: owner.reads}
}

// ReleaseBarred releases the names, and bars the owner for the time ban.
func ReleaseBarred(names []Name, owner Owner, ban time.Duration) Call {
	c := Release(names, owner, 0)
	c.args[len(c.args)-1], c.bars = ToMillis(ban).boxed, true
	return c
}

// Withdraw is a release of an owner that holds nothing, and that may have reserved the names for a writer.
func Withdraw(names []Name, owner Owner) Call {
	c := Release(names, owner, 0)
	for i, n := range names {
		c.args = slices.Insert(c.args, 3+len(names)+i, any(n.Writer()))
	}
	c.args[1] = 1 + 2*len(names)
	return c
}

// The positions of the arguments of a release of one name, and their number, as above.
const (
	releaseKey     = 3
	releaseOwner   = 4
	releaseChannel = 6
	releaseArgs    = 8
)

// Raise writes a token back to the counters of the names, while the owner holds all of them.
func Raise(names []Name, owner Owner, token uint64) Call {
	args := make([]any, 0, 4+2*len(names))
	args = append(args, raiseScript.sha, 2*len(names))
	for _, n := range names {
		args = append(args, n.key, n.counter)
	}
	args = append(args, owner.id, int64(token))
	return Call{script: raiseScript, args: args}
}

// Look reads the node's marker. The connection adds the process ([ConnArgs]).
func Look() Call {
	return Call{script: lookScript, args: []any{lookScript.sha, 1, any(MarkerKey), ""}}
}

// When is an instant that [Mark] writes, by the node's clock.
type When struct {
	kind any
	ms   any
}

// At is an instant by a node's clock, since 1970.
func At(since time.Duration) When { return When{"at", since.Milliseconds()} }

// In is an instant d from now.
func In(d time.Duration) When { return When{"in", ToMillis(d).boxed} }

// Mark writes the node's marker, if it and the process are still those that were seen, and the mark
// arrives no later than last, an instant by the node's clock plus some time. The instants are
// those given, and the process is the node's: m.Process, m.Admitted and m.Change do not count.
func Mark(seen Seen, m Marker, admitted, change When, last time.Duration) Call {
	first, lists := m.lines()
	return Call{script: markScript, args: []any{markScript.sha, 1, any(MarkerKey), seen.Marker,
		admitted.kind, admitted.ms, first, change.kind, change.ms, lists, last.Milliseconds(), seen.Process.String(), ""}}
}

// Millis is a duration boxed for sending, made once for many calls.
type Millis struct{ boxed any }

// ToMillis rounds up: a lease on the server is never shorter than the client's.
func ToMillis(d time.Duration) Millis {
	return Millis{int64((d + time.Millisecond - 1) / time.Millisecond)}
}
