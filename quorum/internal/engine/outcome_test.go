package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
)

// An attempt without a list of masters asked no node: their state is unknown.
func TestAnAttemptWithoutAListKnowsNothing(t *testing.T) {
	a, _ := asking(t, time.Second)
	testkit.Equal(t, a.hold.engine.unlisted(t.Context(), nil, waiting.AskAll).Unknown(), 3, "unknown")
}

// The holder is the one that the most nodes name, in any positions; if equally many name two, the first.
func TestHolderIsTheOneThatMostNodesName(t *testing.T) {
	for _, c := range []struct {
		named []string
		want  string
		by    int
	}{
		{[]string{"", "", ""}, "", 0}, {[]string{"", "", "a"}, "a", 2}, {[]string{"a", "b", ""}, "a", 0},
		{[]string{"a", "a", "b"}, "a", 1}, {[]string{"b", "a", "a"}, "a", 2}, {[]string{"a", "b", "b", "a", "a"}, "a", 4},
	} {
		var o Outcome
		for _, holder := range c.named {
			o.Nodes = append(o.Nodes, NodeAnswer{Is: lease.Refused, Holder: holder})
		}
		holder, by := o.Holder()
		testkit.Check(t, holder == c.want && by == c.by, "%q: %q, named by %d", c.named, holder, by)
	}
}

// What waiters learn from a failed attempt.
func TestResult(t *testing.T) {
	const left = 3 * time.Second
	granted, none := NodeAnswer{Is: lease.Granted}, NodeAnswer{Is: lease.Failed}
	refused := NodeAnswer{Is: lease.Refused, Wait: left, Listeners: 2, Holder: "other"}
	reader := NodeAnswer{Is: lease.Refused, Wait: left, Readers: 1, Holder: "reader"}
	forever, starts := NodeAnswer{Is: lease.Refused, Wait: -1}, NodeAnswer{Is: lease.Quarantined, Wait: time.Second}
	for _, c := range []struct {
		nodes []NodeAnswer
		want  waiting.Result
	}{
		{[]NodeAnswer{refused, refused, refused}, waiting.Result{Held: true, Wait: left, Listeners: 2}},
		{[]NodeAnswer{granted, refused, refused}, waiting.Result{Held: true, Wait: left, Votes: 1, Listeners: 2}},
		{[]NodeAnswer{granted, refused, none}, waiting.Result{Held: true, Wait: left, Votes: 1, Listeners: 2}},
		{[]NodeAnswer{forever, refused, none}, waiting.Result{Held: true, Wait: -1, Listeners: 2}},
		{[]NodeAnswer{granted, none, none}, waiting.Result{Wait: -1, Votes: 1}},
		{[]NodeAnswer{refused, {}, {}}, waiting.Result{Held: true, Listeners: 2}},
		{[]NodeAnswer{reader, reader, none}, waiting.Result{Held: true, Readers: true, Wait: left}},
		{[]NodeAnswer{reader, refused, reader}, waiting.Result{Held: true, Wait: left, Listeners: 2}},
		{[]NodeAnswer{reader, reader, starts}, waiting.Result{Held: true, Wait: left}},
		{[]NodeAnswer{forever, forever, refused}, waiting.Result{Held: true, Wait: -1, Listeners: 2}},
		{[]NodeAnswer{starts, starts, granted}, waiting.Result{Wait: time.Second, Votes: 1}},
	} {
		o := Outcome{Quorum: quorate.Majority(3), Verdict: lease.OutOfReach, Nodes: c.nodes}
		o.Kind = o.decide()
		testkit.Equal(t, o.Result(), c.want, c.nodes)
	}
	o := Outcome{Quorum: quorate.Majority(3), Verdict: lease.Won, Cause: lease.TooLate, Nodes: []NodeAnswer{granted, granted, refused}}
	o.Kind = o.decide()
	testkit.Equal(t, o.Result(), waiting.Result{Wait: -1, Votes: 2, Listeners: 2}, "won, and too late")
}

// A take-over that is blocked has the reason of any attempt, except that another owner counts only if a node names it.
func TestReasonOfATakeOver(t *testing.T) {
	starts, refused, named := NodeAnswer{Is: lease.Quarantined}, NodeAnswer{Is: lease.Refused}, NodeAnswer{Is: lease.Refused, Holder: "other"}
	for _, c := range []struct {
		nodes []NodeAnswer
		want  Kind
	}{
		{[]NodeAnswer{starts, starts, refused}, Quarantined},
		{[]NodeAnswer{refused, refused, refused}, Failed},
		{[]NodeAnswer{refused, named, refused}, Held},
	} {
		o := Outcome{Quorum: quorate.Majority(3), Verdict: lease.OutOfReach, TakesOver: true, Nodes: c.nodes}
		testkit.Equal(t, o.decide(), c.want, c.nodes)
		o.Ended, o.End = true, []error{context.DeadlineExceeded}
		testkit.Equal(t, o.decide(), c.want, "and its context has ended")
	}
}

// A reply after the outcome was certain does not change the reason.
func TestOnlyRefusalsCount(t *testing.T) {
	late := NodeAnswer{Is: lease.Unanswered, Late: lease.Refused, Holder: "late", Readers: 3}
	refused := NodeAnswer{Is: lease.Refused, Holder: "reader", Readers: 2}
	o := Outcome{Quorum: quorate.Majority(3), Nodes: []NodeAnswer{late, refused, late}}
	holder, by := o.Holder()
	testkit.Check(t, holder == "reader" && by == 1, "%q, named by %d", holder, by)
	testkit.Check(t, o.ReadersWith("late") == 0 && o.ReadersWith("reader") == 2, "%+v", o)
	o.Nodes = []NodeAnswer{{Is: lease.Quarantined}, {Is: lease.Failed}, {Is: lease.Unanswered, Late: lease.Quarantined}, {Is: lease.Unanswered}, late}
	testkit.Equal(t, o.RefusedBy().Unable, quorate.All(3).Nodes(), "nodes that could not have granted")
}

// What blocks an attempt is what has to change for it to succeed; nothing blocks one that was won, or was cut. Its kind says why
// it failed then: it took too long, it could not write the token back, or the context ended. It was cut if its outcome is open.
func TestObstacle(t *testing.T) {
	refused := []NodeAnswer{{Is: lease.Refused}, {Is: lease.Refused}, {Is: lease.Refused}}
	overdue := []error{context.DeadlineExceeded, errors.New("the cause")}
	for _, c := range []struct {
		o              Outcome
		obstacle, kind Kind
		isCut          bool
	}{
		{Outcome{Verdict: lease.OutOfReach, Ended: true, End: overdue}, Held, Held, false},
		{Outcome{Verdict: lease.Open}, Failed, Failed, true},
		{Outcome{Verdict: lease.Open, Ended: true, End: overdue}, Failed, Unavailable, true},
		{Outcome{Verdict: lease.Open, End: overdue, Closed: true}, Failed, Canceled, true}, // the Engine was closed first
		{Outcome{Verdict: lease.Open, End: []error{WaitOver(time.Second)}, Closed: true}, Failed, Failed, true},
		{Outcome{Verdict: lease.Won}, Failed, Failed, false},
		{Outcome{Verdict: lease.Won, Cause: lease.TooLate}, Failed, Failed, false},
		{Outcome{Verdict: lease.Won, Cause: lease.RaiseFailed, Ended: true, End: overdue}, Failed, Canceled, false},
		{Outcome{Verdict: lease.Won, Cause: lease.RaiseFailed, End: overdue}, Failed, Unavailable, false},
		{Outcome{Verdict: lease.OutOfReach, Cause: lease.RaiseFailed}, Failed, Unavailable, false},
	} {
		c.o.Quorum, c.o.Nodes = quorate.Majority(3), refused
		testkit.Equal(t, c.o.Obstacle(), c.obstacle, c.o)
		testkit.Equal(t, c.o.decide(), c.kind, c.o)
		testkit.Equal(t, c.o.IsCut(), c.isCut, c.o)
	}
}

// Nobody is known to hold if each refusal names another one, or a node has granted: unless one holder refused a quorum. Readers
// do not keep each other out: they are one.
func TestIsSplit(t *testing.T) {
	by := func(holder string, readers int) NodeAnswer {
		return NodeAnswer{Is: lease.Refused, Holder: holder, Readers: readers}
	}
	for _, c := range []struct {
		nodes []NodeAnswer
		want  bool
	}{
		{[]NodeAnswer{by("a", 0), by("b", 0), {Is: lease.Failed}}, true},
		{[]NodeAnswer{by("a", 0), {Is: lease.Granted}, {Is: lease.Failed}}, true},
		{[]NodeAnswer{by("a", 0), {Is: lease.Failed}, {Is: lease.Failed}}, false},
		{[]NodeAnswer{by("a", 0), by("a", 0), by("b", 0)}, false},
		{[]NodeAnswer{by("a", 0), by("a", 0), {Is: lease.Granted}}, false},
		{[]NodeAnswer{by("a", 1), by("b", 1), {Is: lease.Failed}}, false},
	} {
		o := Outcome{Quorum: quorate.Majority(3), Nodes: c.nodes}
		testkit.Equal(t, o.IsSplit(), c.want, c.nodes)
	}
}
