package roster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/roster"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// deployment is masters in memory, in a bubble.
type deployment struct {
	*world.World
	owners  atomic.Uint64
	befalls func() // what happens between Ready's look and its trial; nil for nothing
	t       *testing.T
}

// locker is one locker's nodes and roster.
type locker struct {
	*roster.Roster
	nodes  []*node.Node
	closed *atomic.Bool
}

func inDeployment(t *testing.T, test func(t *testing.T, d *deployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &deployment{t: t, World: world.New(t, 3)})
	})
}

var allMasters = []int{0, 1, 2}

// quick is the options of nodes without quarantine.
var quick = []node.Option{node.WithoutQuarantine()}

// over returns a locker over the masters, which may found a deployment.
func (d *deployment) over(masters []int, opts []node.Option, exists bool) locker {
	l, p := locker{closed: new(atomic.Bool)}, d.NewProcess()
	for i, master := range masters {
		n, err := p.Node(master, append([]node.Option{node.WithName(fmt.Sprint("master ", i))}, opts...)...)
		testkit.Must(d.t, err)
		l.nodes = append(l.nodes, n)
	}
	l.Roster = roster.New(l.nodes, d.Clock, roster.Options{
		Founds: true, Exists: exists, Go: func(f func()) { go f() }, IsClosed: l.closed.Load,
		NewOwner: func() scripts.Owner {
			if d.befalls != nil {
				d.befalls()
			}
			return scripts.NewOwner("locker", d.owners.Add(1))
		},
	})
	return l
}

func (l locker) Ready(ctx context.Context, need int) bool {
	ready, _ := l.Roster.Ready(ctx, quorate.Rule{N: len(l.nodes), Need: need})
	return ready
}

// wants wants a survey to find which nodes accept the locker.
func (l locker) wants(t *testing.T, accepted ...bool) *roster.Survey {
	t.Helper()
	s := <-l.Survey()
	for i, want := range accepted {
		testkit.Check(t, (s.Refusal(i) == nil) == want && l.Accepts(i) == want, "master %d accepts: %v and %v, want %v", i, s.Refusal(i), l.Accepts(i), want)
	}
	return s
}

// refusal returns what a master replies with when it refuses a client.
func (l locker) refusal(t *testing.T, i int) *scripts.Seen {
	t.Helper()
	r := inside.Of(l.nodes[i]).Pipe("").Do(t.Context(), scripts.Look())
	testkit.Must(t, r.Err)
	return r.Reply.Look
}

// A closed locker marks nothing.
func TestAClosedLockerMarksNothing(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l := d.over(allMasters, quick, false)
		l.closed.Store(true)
		l.wants(t, false, false, false)
	})
}

// Two nodes of one process are refused, and two of one name. No answer is no reason.
func TestDistinct(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		p := d.NewProcess()
		n := func(master int, opts ...node.Option) *node.Node {
			return testkit.Got(p.Node(master, opts...))(t)
		}
		first := n(0)
		second := n(1, node.WithName(first.Name()))
		for _, c := range []struct {
			nodes []*node.Node
			why   string
		}{
			{[]*node.Node{first, n(1), n(2)}, ""},
			{[]*node.Node{first, first}, "is given twice: one process is one vote"},
			{[]*node.Node{first, second}, "nodes 1 and 2 are both named"},
			{[]*node.Node{second, first}, "nodes 1 and 2 are both named"},
		} {
			err := roster.Distinct(c.nodes)
			testkit.Check(t, (err == nil) == (c.why == "") && errors.Is(err, node.ErrInvalid) == (err != nil) && strings.Contains(fmt.Sprint(err), c.why),
				"%v, want %q", err, c.why)
		}
		twins := d.over([]int{0, 1, 0}, quick, false)
		s := <-twins.Survey()
		err := s.Distinct()
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && strings.Contains(err.Error(), "nodes master 0 and master 2 are one process"), "%v", err)
		testkit.Check(t, !s.HasList(), "the third master is marked")
		d.Masters[0].Stop()
		testkit.Must(t, (<-twins.Survey()).Distinct())
	})
}

// A master that refuses its mark says why.
func TestAMasterThatCannotBeMarked(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l := d.over(allMasters, quick, false)
		l.wants(t, true, true, true)
		d.Masters[1].Flush()
		d.Masters[1].Refuse(fakeredis.Refusals{ReadOnly: true})
		s := <-l.Survey()
		testkit.Check(t, strings.Contains(fmt.Sprint(s.Refusal(1)), "NOREPLICAS"), "%v", s.Refusal(1))
		d.Masters[2].Flush()
		s = <-l.Survey()
		testkit.Check(t, strings.HasSuffix(fmt.Sprint(s.Refusal(2)), "does not get it while another one refuses writes"), "%v", s.Refusal(2))
		d.Masters[1].Refuse(fakeredis.Refusals{Forbidden: "SET"})
		s = <-l.Survey()
		permanent := &node.Error{Err: s.Refusal(2)}
		testkit.Check(t, strings.Contains(permanent.Error(), "while the user lacks a right on another one") && permanent.Permanent(), "%v", permanent)
		d.Masters[1].Refuse(fakeredis.Refusals{})
		l.wants(t, true, true, true)
	})
}

// Two nodes of one process are one member: the one that accepts the locker.
func TestTwinsAreOneMember(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		twin := d.over([]int{0, 1, 0}, quick, false)
		s := <-twin.Survey()
		for _, i := range []int{0, 2} {
			err := s.Refusal(i)
			testkit.Check(t, errors.Is(err, node.ErrInvalid) && strings.Contains(err.Error(), "is the same process as node master "), "node %d: %v", i, err)
		}
		<-d.over(allMasters, quick, false).Survey()
		s = <-twin.Survey()
		testkit.Check(t, s.Refusal(0) == nil && errors.Is(s.Refusal(2), node.ErrInvalid),
			"once it is marked: %v, %v", s.Refusal(0), s.Refusal(2))
		testkit.Check(t, twin.Ready(t.Context(), 2) && !twin.Ready(t.Context(), 3), "the twins are not one vote")
		testkit.Check(t, twin.Refusal(2, twin.refusal(t, 2)) == nil, "without a survey the twin is refused for its name")
		// An operator's word makes a list of two prefixes of one process: each has a marker.
		prefixed := d.over([]int{0}, append([]node.Option{node.WithPrefix("p")}, quick...), false)
		both := d.over([]int{0, 1}, quick, false)
		both.nodes[1] = prefixed.nodes[0]
		for _, n := range both.nodes {
			testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{both.nodes[0].Name(), both.nodes[1].Name()}))
		}
		testkit.Check(t, both.Ready(t.Context(), 1) && !both.Ready(t.Context(), 2), "the prefixes are not one vote")
	})
}

// A master with another list refuses, and its reply shows that list.
func TestAnotherList(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l, other := d.over(allMasters, quick, false), d.over(allMasters[:1], quick, false)
		l.wants(t, true, true, true)
		s := other.wants(t, false)
		reply := other.refusal(t, 0)
		var failed *node.Error
		for what, err := range map[string]error{
			"a survey": s.Refusal(0), "a refusal": other.Refusal(0, reply), "a renewal": other.RenewalRefused(0, reply),
		} {
			testkit.Check(t, errors.Is(err, node.ErrMembership), "%s: %v", what, err)
		}
		err := other.Refusal(0, reply)
		testkit.Check(t, errors.As(err, &failed) && failed.Node == "master 0", "%v is not of the node", err)
		testkit.Check(t, !other.Ready(t.Context(), 1) && !other.Accepts(0), "Ready notes that the node accepts the locker")
	})
}

// Whether a node accepts the locker follows from its last reply: a refusal, or the reply to the request that was sent
// last.
func TestAccepts(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l := d.over(allMasters, quick, false)
		sent := d.Clock.Now()
		testkit.Check(t, l.Accepts(0), "a node that has not been asked does not accept the locker")
		l.wants(t, true, true, true)
		reply := l.refusal(t, 0)
		other := d.over(allMasters[:1], quick, false)
		other.Resolve()
		time.Sleep(time.Second)
		other.Refusal(0, reply)
		testkit.Check(t, !other.Accepts(0), "a node that refuses the locker accepts it")
		other.NoteAccepted(0, sent)
		testkit.Check(t, !other.Accepts(0), "an older reply counts")
		time.Sleep(time.Second)
		other.NoteAccepted(0, d.Clock.Now())
		other.NoteAccepted(0, sent)
		testkit.Check(t, other.Accepts(0), "a newer reply does not count, or an older one does")
		other.Refusal(0, reply)
		d.Masters[0].Flush()
		other.wants(t, true)
		other.Refusal(0, reply)
		testkit.Check(t, other.Ready(t.Context(), 1) && other.Accepts(0), "Ready does not note that the node accepts the locker")
		d.Masters[0].Stop()
		other.Recheck(0, func(_ time.Duration, err error) {
			testkit.Check(t, err != nil && !other.Accepts(0), "%v, and a node that does not answer accepts the locker", err)
		})
		synctest.Wait()
	})
}

// Questions about a node do not wait for another one that does not answer, and those that come while
// a survey runs share the next one.
func TestQuestionsShareSurveys(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l := d.over(allMasters, quick, false)
		l.wants(t, true, true, true)
		thaws := make(chan struct{})
		looks := 0
		d.Masters[0].Trace = func(string, string, []string, any, error) {
			looks++
			time.Sleep(10 * time.Millisecond)
		}
		d.Masters[2].Trace = func(string, string, []string, any, error) { <-thaws }
		defer close(thaws)
		var answers sync.WaitGroup
		began := time.Now()
		for range 100 {
			answers.Add(1)
			l.Recheck(0, func(_ time.Duration, err error) {
				testkit.Check(t, err == nil, "%v", err)
				answers.Done()
			})
			time.Sleep(time.Millisecond)
		}
		answers.Wait()
		testkit.Check(t, l.Accepts(0), "a node that was asked about does not accept the locker")
		took := time.Since(began)
		testkit.Check(t, took <= 120*time.Millisecond, "the answers took %v", took)
		testkit.Check(t, looks <= 12, "100 questions made %d looks at a master", looks)
	})
}

// A look is out of date after half a max lease: the members may have changed since, so no master is marked because of
// it.
func TestAnOldLookMarksNothing(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		last, old := d.Masters[2], false
		last.Trace = func(string, string, []string, any, error) {
			if old {
				old = false
				d.Clock.Advance(node.DefaultMaxLease / 2)
			}
		}
		l := d.over(allMasters, quick, false)
		l.wants(t, true, true, true)
		last.Flush()
		old = true
		<-l.Survey()
		testkit.Equal(t, len(last.Keys()), 0, "marks by an old look")
		<-l.Survey()
		testkit.Equal(t, len(last.Keys()), 1, "marks by a new look")
	})
}

// Ready writes no mark, and takes no longer than ctx.
func TestReadyMarksNothing(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l := d.over(allMasters, quick, false)
		l.wants(t, true, true, true)
		for _, m := range d.Masters[1:] {
			m.Flush()
		}
		testkit.Check(t, l.Ready(t.Context(), 1) && !l.Ready(t.Context(), 2), "not one is ready")
		keys := d.Masters[1].Keys()
		testkit.Check(t, len(keys) == 0, "it has written %q", keys)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		testkit.Check(t, !l.Ready(ctx, 1), "ready after the end of ctx")
	})
}

// Ready believes only a grant. What it tried is why a node that accepts the locker is not ready.
func TestReadyBelievesGrants(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		l := d.over(allMasters[:1], quick, false)
		for what, befalls := range map[string]func(){
			"forgets":        d.Masters[0].Flush,
			"refuses writes": func() { d.Masters[0].Refuse(fakeredis.Refusals{ReadOnly: true}) },
		} {
			l.wants(t, true)
			d.befalls = befalls
			ready, tried := l.Roster.Ready(t.Context(), quorate.All(1))
			d.befalls = nil
			s := <-l.Survey()
			why := s.Readiness(tried)[0].Err
			testkit.Check(t, !ready && (tried[0] == nil) == (what == "forgets") && errors.Is(why, tried[0]),
				"a master that %s: %v, %v, %v", what, ready, tried, why)
			d.Masters[0].Refuse(fakeredis.Refusals{})
		}
		d.Masters[0].Flush()
		s := <-d.over(allMasters[:1], nil, false).Survey()
		r := s.Readiness([]error{errors.New("not granted")})[0]
		testkit.Check(t, r.Err == nil && r.In > 0, "a quarantine ends by itself: %+v", r)
	})
}

// A node over a pool has no name until it is connected to. Until all have one, the list is not known: masters are neither
// marked nor refuse it.
func TestNodesWithoutNames(t *testing.T) {
	inDeployment(t, func(t *testing.T, d *deployment) {
		unnamed := append([]node.Option{node.WithName("")}, quick...)
		d.over(allMasters, unnamed, false).wants(t, true, true, true)
		d.Masters[1].Stop()
		d.Masters[2].Stop()
		l := d.over(allMasters, unnamed, false)
		testkit.Check(t, !l.Ready(t.Context(), 1), "ready without a list")
		s := <-l.Survey()
		all := s.Readiness(make([]error, 3))
		testkit.Check(t, !s.HasList() && l.List() == nil && l.Accepts(0), "the list is %v", l.List())
		for i, want := range []string{"list of masters is not known", "connection refused", "connection refused"} {
			testkit.Check(t, strings.Contains(fmt.Sprint(s.Refusal(i)), want) && all[i].Err != nil, "node %d: %v, %v", i, s.Refusal(i), all[i].Err)
		}
		l.Recheck(0, func(_ time.Duration, err error) { testkit.Check(t, err != nil, "it accepts the locker") })
		synctest.Wait()
		for _, m := range d.Masters[1:] {
			m.Start()
		}
		time.Sleep(time.Minute) // the nodes dial again by then
		l.wants(t, true, true, true)
	})
}
