package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/lockers"
	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/scripts"
)

// Open returns a Locker that owns a node for each URL ([node.Open] says which are valid): [Locker.Close] closes
// them. It identifies their servers as [New] does. The error is as New's, and wraps [ErrInvalid] for a URL or a node
// option that is not valid.
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
	var err error
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
	l, err = assemble(nodes, rule, &set, true)
	return l, err
}

// New returns a Locker over nodes that the caller owns and closes. It identifies their servers, and writes the list of
// their names to those that are blank: a master then accepts only clients with that list, and refuses others with
// [ErrMembership]. New blocks for at most a few of a node's timeouts. It is no error if masters do not answer, even if
// none does: they are identified when they grant, [Locker.Lock] waits for them, and [Locker.Ready] reports them.
//
// The error wraps [ErrInvalid] for no nodes or more than 64, a number of nodes that the rule refuses, a nil node, one
// node twice, two nodes of one name or of one server that answers both, an unnamed node at a loopback address or a socket
// among nodes that other hosts reach, nodes of different max lease, and an option that is not valid ([WithNodeOptions] is
// not valid here).
//
// A number of nodes that the rule refuses, as [Majority] does an even one, is accepted if a master already has that list, as
// in the middle of a change of members: the quorum size is then that of one node more, which the rule must accept. If
// masters that do not answer may have the list, the error also wraps [ErrUnavailable].
func New(nodes []*node.Node, rule Rule, opts ...Option) (*Locker, error) {
	set := defaults()
	if err := set.apply(opts); err != nil {
		return nil, err
	}
	if set.nodeOptsSet {
		return nil, fmt.Errorf("quorumlock: %w: WithNodeOptions is for Open; nodes that exist have "+
			"theirs from node.Open or node.New", ErrInvalid)
	}
	return assemble(nodes, rule, &set, false)
}

// assemble makes a Locker over nodes that exist, and that its end closes if it owns them.
func assemble(nodes []*node.Node, rule Rule, set *settings, owned bool) (*Locker, error) {
	if rule == nil {
		return nil, fmt.Errorf("quorumlock: %w: the rule is nil", ErrInvalid)
	}
	need, unfounded := quorumSize(rule, len(nodes))
	quorum := quorate.Rule{N: len(nodes), Need: need}
	switch {
	case need == 0 && unfounded != nil:
		return nil, fmt.Errorf("quorumlock: %w", unfounded)
	case len(nodes) > quorate.MaxNodes:
		return nil, fmt.Errorf("quorumlock: %w: %d nodes are more than %d", ErrInvalid, len(nodes), quorate.MaxNodes)
	case !quorum.IsSafe():
		return nil, fmt.Errorf("quorumlock: %w: the rule makes a lock of %d of %d nodes: two could be held at once",
			ErrInvalid, need, len(nodes))
	}
	for i, n := range nodes {
		switch {
		case n == nil:
			return nil, fmt.Errorf("quorumlock: %w: node %d is nil", ErrInvalid, i+1)
		case n.MaxLease() != nodes[0].MaxLease():
			return nil, fmt.Errorf("quorumlock: %w: the max lease of node %s is %v, of node %s %v", ErrInvalid,
				n.Name(), n.MaxLease(), nodes[0].Name(), nodes[0].MaxLease())
		}
	}
	if err := set.check(nodes[0].MaxLease(), quorum); err != nil {
		return nil, err
	}
	if err := roster.Distinct(nodes); err != nil {
		return nil, fmt.Errorf("quorumlock: %w", err)
	}
	e := engine.New(engine.Config{Nodes: nodes, Quorum: quorum, MaxLease: nodes[0].MaxLease(), Clock: set.Clock, UUID: newUUID(),
		Identity: scripts.Identity(thisProcess(set.label)), Founds: unfounded == nil,
		Exists: set.exists && !inside.Of(nodes[0]).Alone})
	room := &waitingRoom{waitlist: queue.NewList(e, set.Random, unattempted(e, engine.Held)), holders: holders.New(nodes, e.Clock),
		flows: flows{calls: map[string]map[*call]*Lock{}}}
	survey := <-e.Roster.Survey() // the first use of the nodes: they connect
	if err := survey.Distinct(); err != nil {
		return nil, fmt.Errorf("quorumlock: %w", err)
	}
	if unfounded != nil && !survey.HasList() {
		return nil, notFounded(survey, unfounded)
	}
	l := &Locker{engine: e, room: room, meter: new(meter)}
	l.end = sync.OnceFunc(func() { l.endAll(owned) })
	return l.with(set, nil), nil
}

// notFounded returns why a number of nodes that the rule refuses makes no Locker: no master has that list, unless one
// that does not answer has it.
func notFounded(s *roster.Survey, rule error) error {
	unanswered := s.Unanswered()
	if len(unanswered) == 0 {
		return fmt.Errorf("quorumlock: %w; no master has this list: give the client theirs (quorumlock members show), or announce "+
			"this one first (quorumlock members)", rule)
	}
	e := &Error{Op: "open", causes: []error{rule, detail("none of the masters that answer has this list"), ErrUnavailable}}
	e.addNodes(unanswered...)
	return e
}

// with returns a Locker that shares with l everything but the settings.
func (l *Locker) with(set *settings, bad error) *Locker {
	reads := *set
	reads.terms.Mode = lease.Read
	made := l.withOwn(set, bad)
	made.reads = l.withOwn(&reads, bad)
	return made
}

func (l *Locker) withOwn(set *settings, bad error) *Locker {
	made := &Locker{engine: l.engine, room: l.room, meter: l.meter, end: l.end, set: set, bad: bad}
	made.embedded = inside.Embed[lockers.Inside[*Lock]](insideLocker{made})
	set.terms.Events = (*observer)(made)
	return made
}

// With returns a Locker over the same nodes with other settings. The two share everything else:
// closing one closes both. An option that is not valid makes every call of the new Locker fail with
// [ErrInvalid], as do [WithLabel], [WithNodeOptions] and [WithoutFounding]. A lock of one can
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
	if err := set.check(l.engine.MaxLease, l.engine.Quorum); err != nil {
		bad = err
	}
	return l.with(&set, bad)
}

// Close ends the Locker. The contexts of held locks end with [ErrClosed], and their renewal stops; their keys stay
// until their leases end, since the work may be running. Calls that wait return ErrClosed. Close waits for releases
// that are on their way and for the Locker's [Hooks] that run, for at most two node timeouts; then it closes the nodes,
// if [Open] made them, which may take as long again. It is idempotent and returns nil.
func (l *Locker) Close() error {
	l.end()
	return nil
}

// endAll ends the engine, waits for the requests that are on their way, and closes the nodes that Open made.
func (l *Locker) endAll(owned bool) {
	l.engine.Close()
	bound := 2 * l.engine.Nodes[0].Timeout()
	bounded, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	await(bounded, l.engine.Idle)
	areOver := await(bounded, l.meter.events.Idle)
	if owned {
		bounded, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		inside.Each(context.Background(), l.engine.Nodes, func(_ context.Context, _ int, n *node.Node) error { return n.Close() })
		if areOver { // a hook that hangs, or has called Close, keeps the others back
			await(bounded, l.meter.events.Idle) // the hooks of renewals that were on their way
		}
	}
}

// await reports whether it is idle, also if the bound has passed: a select of both chooses by chance.
func await(bounded context.Context, idle func() <-chan struct{}) bool {
	isIdle := idle()
	select {
	case <-isIdle:
		return true
	case <-bounded.Done():
	}
	select {
	case <-isIdle:
		return true
	default:
		return false
	}
}

// Rule returns the quorum size for a number of nodes: how many of them make a lock. Any two sets of that size must
// share a node. The error says why there is no quorum size for that number.
type Rule func(nodes int) (need int, err error)

// All is the rule of package multilock: every node.
func All(nodes int) (int, error) {
	if nodes < 1 {
		return 0, fmt.Errorf("%w: a lock needs at least one node", ErrInvalid)
	}
	return nodes, nil
}

// Majority is the rule of package redlock: more than half of an odd number. It refuses an even number (but see [New]),
// which needs the same quorum as the next odd number and survives one loss less.
func Majority(nodes int) (int, error) {
	if nodes < 1 {
		return 0, fmt.Errorf("%w: a lock needs at least one node", ErrInvalid)
	}
	if nodes%2 == 0 {
		return 0, fmt.Errorf("%w: a majority needs an odd number of nodes, not %d", ErrInvalid, nodes)
	}
	return quorate.Majority(nodes).Need, nil
}

// quorumSize returns the quorum size by the rule. If the rule refuses the number, as it does an even one, need is the need
// of the next number, and unfounded is the rule's error: a change of members passes through such a number. It may be used if
// masters carry that list, but founds no deployment. need is 0 for a number that is never used.
func quorumSize(rule Rule, nodes int) (need int, unfounded error) {
	need, unfounded = rule(nodes)
	if unfounded != nil && !errors.Is(unfounded, ErrInvalid) { // the program's own rule
		unfounded = fmt.Errorf("%w: %w", ErrInvalid, unfounded)
	}
	if unfounded == nil {
		return need, nil
	}
	if need, err := rule(nodes + 1); err == nil && need <= nodes {
		return need, unfounded
	}
	return 0, unfounded
}
