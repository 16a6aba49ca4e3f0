package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// members is the locker's list of masters, and marks blank nodes with it: package membership
// decides which, here the nodes are looked at and marked.
type members struct {
	core  *core
	found bool // see membership.Client
	// letIn is, for each node, when the last request was sent by which it let this locker in.
	letIn []atomic.Int64
	list  atomic.Pointer[scripts.List] // nil while the name of a node is not known

	mu      sync.Mutex
	known   *scripts.Marker // of the node that was last seen to let this locker in
	knownAt clock.Instant   // when that look was sent
	asked   []question      // the next round answers them
	running bool
}

// question is a call that waits for a round.
type question struct {
	node   int // that must answer; everyNode for all
	answer func(*sight)
}

const everyNode = -1

// sight is what one round saw of the nodes, after its marks.
type sight struct {
	list   *scripts.List      // nil while the name of a node is not known
	views  []*membership.View // nil for a node that did not answer, or is one process with another
	errs   []error            // why there is no view
	runIDs []string           // of the processes that answered
	looked clock.Instant      // when the looks were sent
}

var (
	errUnmarked = errors.New("the master is new or has forgotten its list of members, and no client may mark it " +
		"while too few masters carry that list and not all of them answer (quorumlock admit -members does, on your word)")
	errUnmarkable = fmt.Errorf("%w: the master is new or has forgotten its list of members, and gets not this client's, which "+
		"another of the client's masters refuses", ErrMembership)
	errForgotList = errors.New("the master had forgotten its list of members")
	errUnnamed    = errors.New("the list of masters is not known: a node over a pool has no name until it is " +
		"connected to (node.WithName gives it one)")
)

func newMembers(c *core, found bool) *members {
	m := &members{core: c, found: found, letIn: make([]atomic.Int64, len(c.nodes))}
	for i := range m.letIn {
		m.letIn[i].Store(int64(clock.Never))
	}
	return m
}

// refusal returns why a node does not let this locker in; nil where a round must tell: a blank node
// may be marked, and one that says it is another member may be one process with it.
func (m *members) refusal(i int, r *scripts.Refusal) error {
	view, list := membership.ReadRefusal(*r), m.list.Load()
	if view.Standing(list) != membership.Refuses || view.IsMember(list) {
		return nil
	}
	return m.core.nodeError(i, "acquire", view.Refusal(list))
}

// renewalRefused returns why a node does not renew this locker's locks. A blank one is marked, if
// this locker may, so that the next renewal succeeds.
func (m *members) renewalRefused(i int, r *scripts.Refusal) error {
	if err := m.refusal(i, r); err != nil {
		return err
	}
	m.settle(i, func(time.Duration, error) {})
	return m.core.nodeError(i, "renew", errForgotList)
}

// proved records that a node let this locker in, by its reply to a request sent at sent.
func (m *members) proved(node int, sent clock.Instant) {
	if sent > clock.Instant(m.letIn[node].Load()) {
		m.letIn[node].Store(int64(sent))
	}
}

// isProven reports whether a node has let this locker in within half a max lease; a mark is written
// within the other half. Members change at most once in a max lease, and majorities of two lists
// that differ by one member meet.
func (m *members) isProven(node int) bool { return m.isRecent(clock.Instant(m.letIn[node].Load())) }

func (m *members) isRecent(sent clock.Instant) bool {
	return m.core.clock.Now().Before(clock.Deadline(sent, m.core.maxLease/2, clock.DefaultDriftFactor))
}

// ask has a round look at the nodes, and mark those that may be marked. It calls answer in a
// goroutine. Questions that come while a round runs share the next one.
func (m *members) ask(q question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q)
	if !m.running {
		m.running = true
		m.core.background.add()
		go m.run()
	}
}

// settle asks about one node. done gets how long the node is claimed and must wait, or 0 and nil when
// it lets this locker in now, or else a *node.Error.
func (m *members) settle(i int, done func(wait time.Duration, err error)) {
	m.ask(question{i, func(s *sight) {
		err := m.core.nodeError(i, "acquire", m.core.verdict(s, i))
		if s.views[i] != nil && s.list != nil && s.views[i].Standing(s.list) == membership.Claimed {
			if wait := membership.ClaimWaits(s.views, s.list); wait > 0 {
				done(wait, nil)
				return
			}
		}
		done(0, err)
	}})
}

func (m *members) run() {
	defer m.core.background.done()
	for {
		asked := m.take()
		if len(asked) == 0 {
			return
		}
		s := m.round(asked)
		for _, q := range asked {
			q.answer(s)
		}
	}
}

func (m *members) take() (asked []question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, m.asked = m.asked, nil
	m.running = len(asked) > 0
	return asked
}

// verdict returns why a node does not let this locker in, nil when it does.
func (c *core) verdict(s *sight, i int) error {
	switch {
	case s.views[i] == nil:
		return s.errs[i]
	case s.list == nil:
		return c.unnamed(i)
	}
	switch s.views[i].Standing(s.list) {
	case membership.LetsIn:
		return nil
	case membership.Refuses:
		return s.views[i].Refusal(s.list)
	}
	if s.isRefused() && !s.letsIn() {
		return errUnmarkable
	}
	return errUnmarked
}

// isRefused reports whether a node refuses this locker's list.
func (s *sight) isRefused() bool {
	return slices.ContainsFunc(s.views, func(v *membership.View) bool {
		return v != nil && v.Standing(s.list) == membership.Refuses && errors.Is(v.Refusal(s.list), membership.ErrDiffers)
	})
}

// unfounded returns why a number of nodes that the rule refuses makes no Locker: no master says that its
// members change to these, or perhaps one would, but does not answer.
func (s *sight) unfounded(rule error) error {
	var failed *multierror.Error
	for i, v := range s.views {
		if v == nil {
			failed = multierror.Append(failed, s.errs[i])
		}
	}
	if failed == nil {
		return fmt.Errorf("quorumlock: %w; no master says that its members change to these", rule)
	}
	return &Error{Op: "open", Nodes: failed, causes: []error{ErrUnavailable,
		detail("that number of masters is for a change of members, and none of the masters that answer says so")}}
}

// letsIn reports whether any node lets this locker in.
func (s *sight) letsIn() bool {
	return s.list != nil && slices.ContainsFunc(s.views, func(v *membership.View) bool {
		return v != nil && v.Standing(s.list) == membership.LetsIn
	})
}

// round looks at the nodes, and marks those that may be marked.
func (m *members) round(asked []question) *sight {
	n := len(m.core.nodes)
	s := &sight{views: make([]*membership.View, n), errs: make([]error, n), runIDs: make([]string, n)}
	m.look(s, asked)
	claimed := false  // since the last look
	for range 4 * n { // a bound for nodes whose markers change under us
		steps := m.client(s).Plan(s.views)
		claims := len(steps) > 0 && steps[0].Claims
		switch {
		case s.list == nil || len(steps) == 0 || m.core.isClosed() || !m.isRecent(s.looked):
			return s
		case claimed && !claims:
			m.look(s, asked)
			claimed = false
			continue
		}
		m.mark(s, steps)
		claimed = claimed || claims
	}
	return s
}

// client returns what package membership must know of this locker. Grants do not refresh the marker that is known: a
// later change may have replaced its lists, so it counts for as long as a proof does.
func (m *members) client(s *sight) membership.Client {
	c := membership.Client{List: s.list, Need: len(m.core.nodes)/2 + 1,
		Quarantine: func(i int) time.Duration { return m.core.nodes[i].Quarantine() }, Proven: m.isProven}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Found = m.found || m.known != nil // an even number, too, once masters have let it in
	if m.known != nil && m.isRecent(m.knownAt) {
		c.Known = m.known
	}
	return c
}

// mayMark reports whether the views so far are enough to mark blank nodes: one of them has the lists to copy.
func (m *members) mayMark(s *sight) bool {
	c := m.client(s)
	c.Known = nil
	return c.MayMark(s.views)
}

// look looks at all nodes. Once this locker may mark blank nodes, it stops waiting for nodes that no
// question is about.
func (m *members) look(s *sight, asked []question) {
	c := m.core
	sent, answers := c.clock.Now(), make(chan numbered, len(c.nodes))
	open := map[int]bool{}
	s.looked = sent
	s.list = m.resolve() // also where no node answers
	for i, n := range c.nodes {
		s.views[i], s.runIDs[i] = nil, ""
		s.errs[i] = c.nodeError(i, "look", node.ErrTimeout)
		if err := n.Pipe("").Start(scripts.Look(), nil, replyOf{i, answers}); err != nil {
			s.errs[i] = err
		} else {
			open[i] = true
		}
	}
	needed := func(q question) bool { return q.node == everyNode || open[q.node] }
	for len(open) > 0 && (slices.ContainsFunc(asked, needed) || s.list == nil || !m.mayMark(s)) {
		a := <-answers
		delete(open, a.node)
		if s.errs[a.node] = a.result.Err; a.result.Err == nil {
			s.views[a.node], s.runIDs[a.node] = membership.Read(*a.result.Reply.Look), a.result.RunID
		}
		s.list = m.resolve()
		m.see(s, a.node, sent)
	}
	m.refuseTwins(s)
}

// refuseTwins takes away the views of nodes that are one process: no list has one process twice. It
// leaves the one that lets this locker in.
func (m *members) refuseTwins(s *sight) {
	for j := range s.views {
		for i := range j {
			if s.views[i] == nil || s.views[j] == nil || s.runIDs[i] != s.runIDs[j] {
				continue
			}
			refused := map[int]error{i: m.core.verdict(s, i), j: m.core.verdict(s, j)}
			for k, why := range refused {
				if why != nil {
					s.views[k] = nil
					s.errs[k] = m.core.oneProcess(k, i+j-k)
				}
			}
		}
	}
}

// mark writes marks, all at once. A node that does not answer has no view any more.
func (m *members) mark(s *sight, steps []membership.Mark) {
	c := m.core
	sent, answers, open := c.clock.Now(), make(chan numbered, len(steps)), 0
	for _, step := range steps {
		if err := c.nodes[step.Node].Pipe("").Start(step.Call, nil, replyOf{step.Node, answers}); err != nil {
			s.views[step.Node], s.errs[step.Node] = nil, err
		} else {
			open++
		}
	}
	for ; open > 0; open-- {
		a := <-answers
		if a.result.Err != nil {
			s.views[a.node], s.errs[a.node] = nil, a.result.Err
			continue
		}
		s.views[a.node] = s.views[a.node].Wrote(*a.result.Reply.Mark)
		m.see(s, a.node, sent)
	}
}

// see records a node that lets this locker in.
func (m *members) see(s *sight, i int, sent clock.Instant) {
	if s.list == nil || s.views[i] == nil || s.views[i].Standing(s.list) != membership.LetsIn {
		return
	}
	m.proved(i, sent)
	marker := s.views[i].Marker()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || marker.Generation >= m.known.Generation || !m.isRecent(m.knownAt) {
		m.known, m.knownAt = &marker, sent
	}
}

// resolve returns the list of masters, nil while it is not known: a node over a pool has no name
// until it is connected to.
func (m *members) resolve() *scripts.List {
	if list := m.list.Load(); list != nil {
		return list
	}
	names := make([]string, len(m.core.nodes))
	for i, n := range m.core.nodes {
		names[i] = n.Name()
		if names[i] == node.Unnamed || slices.Contains(names[:i], names[i]) {
			return nil
		}
	}
	m.list.CompareAndSwap(nil, scripts.NewList(names...))
	return m.list.Load()
}

// unnamed returns why the list of masters is not known, as far as a node that has answered tells.
func (c *core) unnamed(i int) error {
	name := c.nodes[i].Name()
	for j, other := range c.nodes {
		switch {
		case name == node.Unnamed:
			return fmt.Errorf("%w: the server does not tell its address: a node over a pool is then given a name, "+
				"by node.WithName", ErrInvalid)
		case j != i && other.Name() == name:
			return fmt.Errorf("%w: the servers of two nodes over pools tell the same address, %s: give the nodes names, "+
				"by node.WithName", ErrInvalid, name)
		}
	}
	return errUnnamed
}

// await waits until the list of masters is known. While a name is not, it asks all nodes. The error
// says why the list is not known, with the error of each node.
func (m *members) await(ctx context.Context) *Error {
	if m.list.Load() != nil {
		return nil
	}
	done := make(chan *sight, 1)
	m.ask(question{everyNode, func(s *sight) { done <- s }})
	select {
	case s := <-done:
		if m.list.Load() != nil {
			return nil
		}
		err := m.core.unasked(ErrUnavailable)
		for i := range s.views {
			err.Nodes = multierror.Append(err.Nodes, m.core.nodeError(i, "acquire", m.core.verdict(s, i)))
		}
		return err
	case <-ctx.Done():
		return m.core.unasked(contextError(ctx)...)
	case <-m.core.closed:
		return m.core.unasked(ErrClosed)
	}
}

// start has a round ask all nodes, and waits for it.
func (m *members) start() *sight {
	done := make(chan *sight, 1)
	m.ask(question{everyNode, func(s *sight) { done <- s }})
	return <-done
}

// numbered is one node's reply to a look or a mark.
type numbered struct {
	node   int
	result pipeline.Result
}

// replyOf receives one node's reply.
type replyOf struct {
	node int
	to   chan<- numbered // with room for every reply
}

func (r replyOf) Done(result pipeline.Result) { r.to <- numbered{r.node, result} }
