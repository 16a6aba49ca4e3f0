package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
	"golang.org/x/sync/errgroup"
)

// Locker locks names on its nodes. It is safe for concurrent use.
type Locker struct {
	core     *core
	waitlist *queue.List
	set      *settings
	reads    *settings // the same, of readers
	bad      error     // why With refused its options; every call returns it
}

// Open opens a node for each URL, and returns a Locker that owns the nodes: [Locker.Close] closes
// them. It identifies the nodes as [New] does. For the URLs see [node.Open].
func Open(urls []string, rule Rule, opts ...Option) (*Locker, error) {
	set := defaults()
	if err := set.apply(opts); err != nil {
		return nil, err
	}
	nodeOpts := set.nodeOpts
	if set.logger != nil { // else it is the nodes' default, too; assemble refuses a nil one
		nodeOpts = append([]node.Option{node.WithLogger(set.logger)}, nodeOpts...)
	}
	var nodes []*node.Node
	var l *Locker
	defer func() {
		if l == nil { // also after a rule or a clock that panicked
			for _, n := range nodes {
				n.Close()
			}
		}
	}()
	for i, url := range urls {
		n, err := node.Open(url, nodeOpts...)
		if err != nil {
			return nil, fmt.Errorf("quorumlock: node %d: %w", i+1, err)
		}
		nodes = append(nodes, n)
	}
	made, err := assemble(nodes, rule, &set)
	if err != nil {
		return nil, err
	}
	l = made
	l.core.owned = true
	return l, nil
}

// New returns a Locker over nodes that the caller owns and closes. It identifies their servers, and
// marks those that are new with this list of masters, for at most a few of a node's timeouts; a
// node that does not answer is identified when it grants. Masters that accept clients with another
// list refuse the Locker's calls with [ErrMembership]. An even number of nodes by the rule Majority
// is for a change of members, and needs a master that has that list. The error wraps [ErrInvalid]: no
// nodes, a number that the rule refuses, a nil node, one node twice, two nodes of one name or of
// one process, nodes of different max lease, or an option that is not valid, [WithNodeOptions]
// among them.
func New(nodes []*node.Node, rule Rule, opts ...Option) (*Locker, error) {
	set := defaults()
	if err := set.apply(opts); err != nil {
		return nil, err
	}
	if set.nodeOptsSet {
		return nil, fmt.Errorf("quorumlock: %w: WithNodeOptions is for Open; nodes that exist have "+
			"theirs from node.Open or node.New", ErrInvalid)
	}
	return assemble(nodes, rule, &set)
}

// assemble makes a Locker over nodes that exist.
func assemble(nodes []*node.Node, rule Rule, set *settings) (*Locker, error) {
	if rule == nil {
		return nil, fmt.Errorf("quorumlock: %w: the rule is nil", ErrInvalid)
	}
	need, unfounded := quorumSize(rule, len(nodes))
	switch {
	case need == 0:
		return nil, fmt.Errorf("quorumlock: %w", unfounded)
	case len(nodes) > engine.MaxNodes:
		return nil, fmt.Errorf("quorumlock: %w: %d nodes are more than %d", ErrInvalid, len(nodes), engine.MaxNodes)
	case need < 1 || need > len(nodes) || 2*need <= len(nodes):
		return nil, fmt.Errorf("quorumlock: %w: the rule makes a lock of %d of %d nodes: two could be held at once",
			ErrInvalid, need, len(nodes))
	}
	for i, n := range nodes {
		switch {
		case n == nil:
			return nil, fmt.Errorf("quorumlock: %w: node %d is nil", ErrInvalid, i+1)
		case n.MaxLease() != nodes[0].MaxLease():
			return nil, fmt.Errorf("quorumlock: %w: the max lease of node %s is %v, that of node %s %v", ErrInvalid,
				n.Name(), n.MaxLease(), nodes[0].Name(), nodes[0].MaxLease())
		}
	}
	if err := set.check(nodes[0].MaxLease(), need); err != nil {
		return nil, err
	}
	if err := distinct(nodes); err != nil {
		return nil, err
	}
	c := &core{maxLease: nodes[0].MaxLease(), log: set.log, identity: thisProcess(set.label), rng: rand.New(set.Random)}
	c.Engine = engine.New(engine.Config{Nodes: nodes, Need: need, Clock: set.Clock, UUID: newUUID(),
		Identity: scripts.Identity(c.identity), Founds: unfounded == nil, Exists: set.exists})
	c.holders = holders.New(nodes, c.UUID, scripts.Identity(c.identity), c.Clock)
	survey := <-c.Roster.Survey()
	if unfounded != nil && !survey.HasList() {
		return nil, notFounded(survey, unfounded)
	}
	return newLocker(c, c.newWaitlist(), set, nil), nil
}

func newLocker(c *core, list *queue.List, set *settings, bad error) *Locker {
	reads := *set
	reads.terms.Mode = lease.Read
	set.terms.Events, reads.terms.Events = &observer{c, set}, &observer{c, &reads}
	return &Locker{core: c, waitlist: list, set: set, reads: &reads, bad: bad}
}

// distinct refuses two nodes of one server, by the address and by the run id if the server
// answers, two nodes of one name, and addresses that make no list.
func distinct(nodes []*node.Node) error {
	for j, n := range nodes {
		for i, m := range nodes[:j] {
			switch {
			case m == n || n.Address() != "" && m.Address() == n.Address():
				return fmt.Errorf("quorumlock: %w: node %s is given twice: one process is one vote",
					ErrInvalid, cmp.Or(n.Address(), n.Name()))
			case m.Name() == n.Name() && (inside.Of(m).Named || inside.Of(n).Named):
				return fmt.Errorf("quorumlock: %w: nodes %d and %d are both named %q: errors could not "+
					"distinguish them (WithName in WithNodeOptions gives all nodes one name)", ErrInvalid, i+1, j+1, n.Name())
			}
		}
	}
	if err := roster.MixedHosts(nodes); err != nil {
		return fmt.Errorf("quorumlock: %w", err)
	}
	runIDs := make([]string, len(nodes))
	var group errgroup.Group
	for i, n := range nodes {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), n.Timeout())
			defer cancel()
			runIDs[i], _ = inside.Of(n).Identify(ctx) // a node that does not answer is checked when it grants
			return nil
		})
	}
	group.Wait()
	for i := range nodes {
		for j := range i {
			if runIDs[i] != "" && runIDs[i] == runIDs[j] {
				return fmt.Errorf("quorumlock: %w: nodes %s and %s are one process",
					ErrInvalid, nodes[j].Name(), nodes[i].Name())
			}
		}
	}
	return nil
}

// With returns a Locker over the same nodes with other settings. The two share everything else:
// closing one closes both. An option that is not valid makes every call of the new Locker fail with
// [ErrInvalid], as do [WithLabel], [WithNodeOptions] and [WithExistingDeployment]. A lock of one can
// be entered again through the other only if both make the same lock: see [Locker.Lock].
func (l *Locker) With(opts ...Option) *Locker {
	set := *l.set
	set.newOnly, set.Given = false, false
	bad := l.bad
	if err := set.apply(opts); err != nil {
		bad = err
	} else if set.newOnly || set.Given {
		bad = fmt.Errorf("quorumlock: %w: the clock, the source of randomness, the label, the nodes' options "+
			"and whether the deployment exists can be set only for a new Locker", ErrInvalid)
	}
	set.Settings, set.nodeOpts, set.label = l.set.Settings, l.set.nodeOpts, l.set.label
	if err := set.check(l.core.maxLease, l.core.Need); err != nil {
		bad = err
	}
	return newLocker(l.core, l.waitlist, &set, bad)
}

// ID returns the Locker's UUID, the first part of its owners' ids (see [Lock.Owner]). Lockers that
// [Locker.With] makes of it have the same one.
func (l *Locker) ID() string { return l.core.UUID }

// Identity returns which process the Locker belongs to, as it writes to the masters while it holds
// locks.
func (l *Locker) Identity() Identity { return l.core.identity }

// Nodes returns the names of the nodes, in the Locker's order (see [node.Node.Name]).
func (l *Locker) Nodes() []string {
	names := make([]string, len(l.core.Nodes))
	for i, n := range l.core.Nodes {
		names[i] = n.Name()
	}
	return names
}

// Lock waits until it holds all the names, or ctx ends, or the bound of [WithWait] is reached. The
// lock is held until [Lock.Unlock], and renewed in the background unless the lease is fixed. ctx is
// also the parent of the lock's context, so it should span the work, not only the waiting: when ctx
// ends the lock's context ends, but the lock is held, and renewed, until Unlock.
//
// With the context of a held lock, Lock enters that lock again if all the names are its names. It
// locks other names afresh, and returns [ErrInvalid] for a mix. Do not give the lock's context to a
// goroutine that should wait for the lock: it would enter at once. Re-entry does not change the lock:
// a fixed lease is not prolonged, and a Locker that [Locker.With] made with another lease (its
// length, or fixed or not), max hold or drift gets ErrInvalid.
//
// After a process has unlocked the names, its next call lets waiters of other processes go first, for
// a bounded time, usually some milliseconds.
//
// The error is an [*Error]. When ctx ends it wraps [ErrNotAcquired], the reason of the last
// attempt, if there was one ([ErrHeld], [ErrQuarantined] or [ErrUnavailable]), and the context's
// error. Lock does not wait if the names cannot be locked (ErrInvalid), if the Locker is closed
// ([ErrClosed]), or if too many nodes have an error that does not pass by itself, such as a wrong
// password, or a key of another type at the name (the [*node.Error] of each). These three wrap
// [ErrPermanent]: do not try them again in a loop.
func (l *Locker) Lock(ctx context.Context, names ...string) (*Lock, error) {
	if l.set.wait == 0 {
		return l.TryLock(ctx, names...)
	}
	within, err := l.checkCall(ctx, "lock", names)
	if err != nil {
		return nil, err
	}
	if within != nil {
		until, stop := l.core.bounded(ctx, l.set)
		defer stop()
		return within.enter(until, l.set, names)
	}
	return l.wait(ctx, wanted{names: names})
}

// wait waits until it has what is wanted.
func (l *Locker) wait(ctx context.Context, what wanted) (lock *Lock, err error) {
	until, stop := l.core.bounded(ctx, l.set)
	defer func() {
		stopped := false
		defer func() { lock.releaseUnless(&stopped) }()
		stop() // runs the caller's code: to end a context asks its parent
		stopped = true
	}()
	o := l.core.observe(ctx, l.set, what.names)
	held, err := l.await(until, what, o)
	return l.report(o, held, err)
}

// TryLock is [Locker.Lock] in one attempt, without waiting for a release. It takes a round trip or
// two; up to 40 ms more if other processes want the names and the node that it asked first does not
// answer; and about a node's timeout if too many nodes do not answer. The errors are those of Lock.
func (l *Locker) TryLock(ctx context.Context, names ...string) (*Lock, error) {
	within, err := l.checkCall(ctx, "lock", names)
	if err != nil {
		return nil, err
	}
	if within != nil {
		return within.enter(ctx, l.set, names)
	}
	return l.try(ctx, wanted{names: names})
}

// try makes one attempt at what is wanted.
func (l *Locker) try(ctx context.Context, what wanted) (*Lock, error) {
	o := l.core.observe(ctx, l.set, what.names)
	o.attempting()
	lock, r := what.attempt(ctx, l.core, l.set, waiting.Alone, -1)
	o.attempted(lock, r)
	if lock == nil {
		l.core.describeHolder(ctx, r.err)
		return l.report(o, nil, r.err)
	}
	return l.report(o, lock, nil)
}

// report calls the hooks at the end of a call, and returns its results.
func (l *Locker) report(o *observation, lock *Lock, err error) (*Lock, error) {
	hook := l.set.hooks.Acquired
	if o == nil && hook == nil {
		return lock, err
	}
	returned := false
	defer lock.releaseUnless(&returned)
	o.ended(lock, err)
	if hook != nil && lock != nil {
		hook(lock)
	}
	returned = true
	return lock, err
}

// Do runs fn with the lock and its context while it holds the names. The context ends when the lock
// can no longer be trusted. The functions that fn calls find the lock by [FromContext]. Do returns the
// error of Lock, or those of fn and Unlock joined: an error that wraps [ErrLost] says that the lock was
// lost before fn returned. If fn has handed the lock over ([Lock.HandOver]), Do returns fn's error.
func (l *Locker) Do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error, names ...string) error {
	lock, err := l.Lock(ctx, names...)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

// do runs fn, and unlocks.
func (l *Lock) do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error) (err error) {
	defer func() {
		if l.Err() == ErrHandedOver {
			return
		}
		unlockErr := l.Unlock(context.WithoutCancel(ctx))
		if loss := l.Err(); loss != nil && errors.Is(err, loss) && errors.Is(unlockErr, loss) {
			return // fn has returned the cause of its context
		}
		err = oneLine(err, unlockErr)
	}()
	return fn(l.Context(), l)
}

// oneLine joins two errors, either of which may be nil. errors.Join would put a line break between them.
func oneLine(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; %w", first, second)
}

// String names the masters, for people. The form may change.
func (l *Locker) String() string {
	names := make([]string, len(l.core.Nodes))
	for i, n := range l.core.Nodes {
		names[i] = n.Name()
	}
	return "locker over " + strings.Join(names, ", ")
}

// Validate returns the error with which [Locker.Lock] would refuse the names at once, whatever the
// nodes say, or nil. It asks no node. The error wraps [ErrInvalid] for names that cannot be locked and
// for options that [Locker.With] refused, and [ErrClosed] for a Locker that was closed.
func (l *Locker) Validate(names ...string) error { return l.refuse("lock", names) }

// checkCall checks the call, and returns the lock over the names that the flow of ctx holds; nil for
// none.
func (l *Locker) checkCall(ctx context.Context, op string, names []string) (*Lock, error) {
	if err := l.checkStart(ctx, op, names); err != nil {
		return nil, err
	}
	return l.core.heldBy(ctx, op, names)
}

// checkStart returns why a call for the names is refused before any node is asked, or nil.
func (l *Locker) checkStart(ctx context.Context, op string, names []string) error {
	if err := l.refuse(op, names); err != nil {
		return err
	}
	return endedError(ctx, op, names)
}

// endedError returns the error of a call whose context has ended before, or nil.
func endedError(ctx context.Context, op string, names []string) error {
	ended := contextError(ctx)
	if ended == nil {
		return nil
	}
	return &Error{Op: op, Names: slices.Clone(names), causes: append([]error{ErrNotAcquired}, ended...)}
}

// refuse returns why this Locker cannot serve the names, or nil.
func (l *Locker) refuse(op string, names []string) error {
	if err := l.unusable(op, names); err != nil {
		return err
	}
	return checkNames(op, names)
}

// unusable returns why this Locker cannot serve any names, or nil.
func (l *Locker) unusable(op string, names []string) error {
	if l.bad != nil {
		return &Error{Op: op, Names: slices.Clone(names), causes: []error{l.bad}}
	}
	if l.core.IsClosed() {
		e := &Error{Op: op, Names: slices.Clone(names), causes: []error{ErrClosed}}
		if op == "lock" || op == opTakeOver {
			e.causes = slices.Insert(e.causes, 0, ErrNotAcquired)
		}
		return e
	}
	return nil
}
