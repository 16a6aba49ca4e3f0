package quorum

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/quorum/internal/words"
	"github.com/quorumlock/quorumlock/scripts"
)

// State is the nodes' state of a name.
type State struct {
	Name  string
	Slot  int    // of the semaphore of that name; −1 for a lock that is no slot
	Owner string // that a quorum keeps; empty for none
	// Identity is which process the owner is; zero if no node knows, or for no owner.
	Identity Identity
	Level    int           // of that owner, on one of these nodes
	Token    uint64        // the highest token counter on any node: at least the name's last token, since names share counters
	TTL      time.Duration // how long a quorum keeps that owner, by the nodes' clocks; −1: never expires
	// Readers is the least number of readers that a quorum has. They have no Owner; TTL is the last reader's.
	Readers int
	// WriterWaits reports that a waiting writer keeps new readers back.
	WriterWaits bool
	Nodes       []NodeState // in the Locker's order
	isUnknown   bool        // nodes that do not answer, or may have forgotten it, could make it held
}

// NodeState is one node's state of a name.
type NodeState struct {
	Node        string
	Err         error         // a *node.Error, or nil; with an error the fields below are zero
	Owner       string        // empty when the name is free there, or readers have it
	Identity    Identity      // of the owner; zero if no node knows it
	Level       int           // as the key has it; the handle's own count decides
	TTL         time.Duration // −1 when the key never expires
	Token       uint64        // the token counter, which other names share
	Quarantine  time.Duration // left
	Readers     int           // that hold the name there
	Reservation time.Duration // how long a waiting writer keeps new readers back; 0 for none
}

// ownerText names an owner, with its process if that is known.
func ownerText(owner string, is Identity) string {
	if is == (Identity{}) {
		return fmt.Sprintf("%.64q", owner)
	}
	return fmt.Sprintf("%v as %.64q", is, owner)
}

// String says who holds the name, and then what each node replied, for people. The form may change.
func (s State) String() string {
	var b strings.Builder
	b.WriteString(words.Quoted([]string{s.Name}))
	if s.Slot >= 0 {
		b.WriteString(words.Slots([]int{s.Slot}))
	}
	switch {
	case s.Readers > 0:
		fmt.Fprintf(&b, " is held by %s, %s", words.Readers(s.Readers), words.Left(s.TTL))
	case s.Owner != "":
		fmt.Fprintf(&b, " is held by %s, %s", ownerText(s.Owner, s.Identity), words.Left(s.TTL))
	case s.isUnknown:
		b.WriteString(" may be held: too few nodes can tell")
	default:
		b.WriteString(" is free")
	}
	if s.WriterWaits {
		b.WriteString(", a writer waits")
	}
	fmt.Fprintf(&b, ", token at most %d", s.Token)
	for _, n := range s.Nodes {
		b.WriteString("; " + n.String())
	}
	return b.String()
}

// String says what the node replied, for people. The form may change.
func (n NodeState) String() string {
	if n.Err != nil {
		return n.Err.Error()
	}
	text := fmt.Sprintf("node %s: free", n.Node)
	switch {
	case n.Readers > 0:
		text = fmt.Sprintf("node %s: %s, %s", n.Node, words.Readers(n.Readers), words.Left(n.TTL))
	case n.Owner != "":
		text = fmt.Sprintf("node %s: %s, level %d, %s", n.Node, ownerText(n.Owner, n.Identity), n.Level, words.Left(n.TTL))
	}
	if n.Reservation > 0 {
		text += fmt.Sprintf(", a writer keeps new readers back for %v", n.Reservation)
	}
	text += fmt.Sprintf(", token counter %d", n.Token)
	if n.Quarantine > 0 {
		text += fmt.Sprintf(", in quarantine for another %v", n.Quarantine)
	}
	return text
}

// Inspect returns the state of a name on every node. It writes nothing. A node that accepts clients with another list
// of masters does not count: its [NodeState] has an error that wraps [ErrMembership]. If fewer nodes than the quorum
// size count, the error is an [*Error] that wraps [ErrUnavailable], and the State has what they replied. A name that
// cannot be locked is [ErrInvalid], a closed Locker [ErrClosed].
func (l *Locker) Inspect(ctx context.Context, name string) (State, error) {
	if err := l.refuse("inspect", []string{name}); err != nil {
		return State{}, err
	}
	states, err := l.core.inspect(ctx, []string{name})
	return states[0], err
}

// inspect returns the states of the names, and the first error.
func (c *core) inspect(ctx context.Context, names []string) (states []State, err error) {
	read := lockstate.Read(ctx, c.Nodes, names...)
	errs := make([][]error, len(names))
	for k, masters := range read {
		errs[k] = make([]error, len(c.Nodes))
		for i, m := range masters {
			if failed := c.NodeError(i, "inspect", cmp.Or(m.Err, c.Roster.OtherList(m.Marker))); failed != nil {
				errs[k][i], masters[i] = failed, lockstate.Master{Node: m.Node, Err: failed}
			}
		}
	}
	lockstate.Identify(ctx, c.Nodes, read)
	for k, name := range names {
		states = append(states, c.stateOf(name, read[k]))
		err = cmp.Or(err, c.unavailable(ctx, "inspect", name, errs[k]))
	}
	return states, err
}

// stateOf combines the nodes' states of a name.
func (c *core) stateOf(name string, masters []lockstate.Master) State {
	lock := lockstate.Judge(name, masters, c.Need)
	slot := -1
	if semaphore, number, isSlot := scripts.ParseSlot(name); isSlot {
		name, slot = semaphore, number
	}
	state := State{Name: name, Slot: slot, Owner: lock.Owner, Identity: Identity(lock.Identity), Level: lock.Level,
		Token: lock.Token, TTL: lock.TTL, Readers: lock.Readers, WriterWaits: lock.WriterWaits,
		isUnknown: lock.State == lockstate.Unknown}
	for _, m := range masters {
		state.Nodes = append(state.Nodes, NodeState{Node: m.Node, Err: m.Err, Owner: m.Owner, Identity: Identity(m.Identity),
			Level: m.Level, TTL: m.TTL, Token: m.Token, Quarantine: m.Quarantine,
			Readers: m.Readers, Reservation: m.Reservation})
	}
	return state
}

// unavailable returns the error of a call that failed on too many nodes, or nil.
func (c *core) unavailable(ctx context.Context, op, name string, errs []error) error {
	e := &Error{Op: op, Names: []string{name}}
	for i, err := range errs {
		e.addNodes(c.NodeError(i, op, err))
	}
	if e.Nodes == nil || len(errs)-e.Nodes.Len() >= c.Need {
		return nil
	}
	e.causes = append([]error{ErrUnavailable}, contextError(ctx)...)
	if semaphore, slot, isSlot := scripts.ParseSlot(name); isSlot {
		e.Names, e.slots = []string{semaphore}, []int{slot}
	}
	return e
}

// ForceUnlock deletes the locks at the names, on an operator's word. The holder learns of it with its next
// renewal, or when its fixed lease ends: two holders are possible until then. ForceUnlock returns nil when a
// quorum has no lock at any of the names. Otherwise it returns an [*Error] for each name that failed, joined;
// each wraps [ErrUnavailable]. A key that is no lock stays, and is an error of its node. A name that cannot
// be locked is [ErrInvalid], a closed Locker [ErrClosed].
func (l *Locker) ForceUnlock(ctx context.Context, names ...string) error {
	if err := l.refuse("force", names); err != nil {
		return err
	}
	return l.core.forceAll(ctx, names, l.core.forceAnyone)
}

// ForceUnlockOwner is [Locker.ForceUnlock] of one owner's locks only ([Lock.Owner], [State].Owner), a reader's too.
// Use it if you know that a process is dead, to free its lock without waiting for the lease. It returns nil even if
// the owner had nothing. The owner cannot come back.
func (l *Locker) ForceUnlockOwner(ctx context.Context, owner string, names ...string) error {
	if err := l.refuse("force", names); err != nil {
		return err
	}
	return l.core.forceOwner(ctx, owner, names)
}

func (c *core) forceOwner(ctx context.Context, owner string, names []string) error {
	if !scripts.ValidOwner(owner) {
		return invalidf("force", nil, "%.64q is no owner", owner)
	}
	return c.forceAll(ctx, names, func(name scripts.Name, _ []lockstate.Master) scripts.Call {
		return scripts.ForceOwner(name, scripts.OwnerOf(owner), c.maxLease)
	})
}

func (c *core) forceAll(ctx context.Context, names []string, by func(scripts.Name, []lockstate.Master) scripts.Call) error {
	var failed error
	for _, text := range names {
		name, errs := scripts.NewName(text), make([]error, len(c.Nodes))
		masters := lockstate.Read(ctx, c.Nodes, text)[0]
		call := by(name, masters)
		inside.Each(ctx, c.Nodes, func(ctx context.Context, i int, n *node.Node) error {
			if errs[i] = masters[i].Err; !redisconn.HasCode(errs[i], "QUORUMLOCK") { // no lock: a release of an owner would delete its field
				errs[i] = inside.Of(n).Pipe(text).Do(ctx, call).Err
			}
			return nil // all are asked
		})
		failed = oneLine(failed, c.unavailable(ctx, "force", text, errs))
	}
	return failed
}

// forceAnyone returns the call that deletes the lock at a name.
func (c *core) forceAnyone(name scripts.Name, masters []lockstate.Master) scripts.Call {
	// First get the owners on the nodes: each is barred on every node, or a repair would bring the lock back on nodes
	// that have deleted it already. The token that bars readers must be known before, too.
	var owners []scripts.Owner
	token, isRead := uint64(0), false
	for _, m := range masters {
		if owner := scripts.OwnerOf(m.Owner); m.Owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
		token, isRead = max(token, m.Token), isRead || m.Readers > 0
	}
	if !isRead {
		token = 0
	}
	return scripts.Force(name, owners, token, c.maxLease)
}

// Ready returns nil if a quorum of nodes answers, lets this Locker in and is out of quarantine. It is for a readiness
// probe, and for a program that should fail at its start rather than wait in its first call of Lock. It marks new
// masters, as [Open] does. On each node alone it acquires, renews and releases a lock under a reserved name,
// quorumlock:trial:ID, of which only a token counter remains. It does not test whether the user may use the
// keys and channels of the program's own names, whether messages arrive, or anything on a node in quarantine:
// quorumlock check -name does.
//
// It asks all nodes, and returns as soon as enough are ready: no dead node delays that. Otherwise it
// takes up to about a node's timeout.
//
// The error is an [*Error] with the [*node.Error] of each node that failed. It wraps
// [ErrQuarantined] if only quarantines are in the way, which end by themselves. Otherwise it wraps
// [ErrUnavailable], with [ErrMembership] for another list of masters, and with [ErrPermanent] if
// too few nodes are without a permanent error. A Locker whose options [Locker.With] refused returns
// [ErrInvalid], and a closed one [ErrClosed].
func (l *Locker) Ready(ctx context.Context) error {
	c := l.core
	if err := l.unusable(opReady, nil); err != nil {
		return err
	}
	if ended := contextError(ctx); ended != nil {
		return &Error{Op: opReady, causes: ended}
	}
	ready, tried := c.Roster.Ready(ctx, c.Need)
	if ready {
		return nil
	}
	select {
	case s := <-c.Roster.Survey(): // it shows why, and marks new masters
		return c.notReady(s, tried)
	case <-ctx.Done():
		return &Error{Op: opReady, causes: append([]error{ErrUnavailable}, contextError(ctx)...)}
	case <-c.Closed:
		return &Error{Op: opReady, causes: []error{ErrClosed}}
	}
}

// notReady returns why the nodes make no lock, as a survey and trials have found; nil if they can.
func (c *core) notReady(s *roster.Survey, tried []error) error {
	e := &Error{Op: opReady, Need: c.Need}
	nodes := s.Readiness(tried)
	for i, n := range nodes {
		switch {
		case n.Err != nil:
			e.Unknown++
			e.addNodes(c.NodeError(i, "look", n.Err))
		case n.In > 0:
			e.Quarantined++
		default:
			e.Granted++
		}
	}
	left, ok := membership.ReadyIn(nodes, e.Need)
	switch {
	case ok && left == 0:
		return nil
	case ok:
		e.causes = []error{ErrQuarantined, detail(fmt.Sprintf("for another %v", left.Round(100*time.Millisecond)))}
	default:
		e.causes = []error{ErrUnavailable}
	}
	return e
}
