// Package change changes the list of masters, by one member at a time. It is the operator's half of
// package membership: the command quorumlock uses it, and no client. A [Change] decides, a [Procedure] is what a command
// does, step by step, and a [Driver] does it, over the connections that it is given: the command's, and those of the
// simulation. All but the Driver is pure, as package membership is; the tests are there, too.
package change

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Procedure is one run of an operator's command, step by step. Next says what to do, and the method
// that the action names gets the reply:
//
//	Look ─▶ Pause ─▶ Look                        the last change, or the added member's quarantine, is not over
//	  ├───▶ ReadTokens ─▶ RaiseTokens ─▶ Write   the first mark that announces
//	  ├───▶ Write ─▶ Write ─▶ Done               each mark, in the order of the masters' names
//	  └───▶ Failed, Done                         nothing may be written, or nothing is left to write
//	Write ─▶ Look                                the master had changed since it was seen: start over
//
// Marks are written one by one. After the first that is not written the run looks and decides again: if the changes
// of two operators share a master, one of them stops there. Each mark carries the last instant at which it may be
// written, half a max lease after the looks began.
//
// A Procedure is pure: it holds no connection and reads no clock. A copy is independent. It is not safe for
// concurrent use.
type Procedure struct {
	decide func(views map[string]*membership.View) (plan, error)
	names  []string
	plan   plan
	next   Step
	looks  int
	late   bool // the last mark was refused although nothing had changed
}

// plan is what follows from one look.
type plan struct {
	marks    []Step        // the writes, in order
	wait     time.Duration // before the next look, if there are no marks
	why      string        // of the wait, a sentence without its stop
	again    bool          // look again after the marks
	tokensOf *scripts.List // the list whose token counters are raised before the first mark; nil for none
	report   Report
}

// Action is what a step asks for.
type Action int

const (
	Look        Action = iota + 1 // look at all masters of Names, and call Looked
	Pause                         // wait for Wait, for the reason Why, and call Paused
	ReadTokens                    // read all token counters of each master of Names, and call TokensRead
	RaiseTokens                   // raise them to the highest read, on each master of Names, and call TokensRaised
	Write                         // run Call on the master Names[0], and call Wrote
	Done                          // Report says what the command has done
	Failed                        // Err says in a sentence for the operator why nothing may be written, and what to do
)

// Step is what a command does next.
type Step struct {
	Do     Action
	Names  []string
	Wait   time.Duration
	Why    string // a sentence for the operator, without its stop
	Call   scripts.Call
	seen   string // the marker that Call replaces
	Report Report
	Err    error
}

// Report is what a command has done.
type Report struct {
	From, To  *scripts.List // the lists of the change; nil if none is known
	Changed   []string      // the masters that it has written, in this run's last look
	NoAnswer  []string      // of the list, and not changed: did not answer, or not given
	Blank     []string      // of the list, and not changed: a client marks them
	Unretired string        // the removed master, if it was not given, did not answer, or has another list
}

// maxLooks bounds a run on masters that change under it.
const maxLooks = 20

func newProcedure(names []string, decide func(map[string]*membership.View) (plan, error)) *Procedure {
	p := &Procedure{decide: decide, names: names}
	p.look()
	return p
}

// Next returns what to do next.
func (p *Procedure) Next() Step { return p.next }

func (p *Procedure) look() {
	switch p.looks++; {
	case p.looks > maxLooks && p.late:
		p.fail(errors.New("the marks come too late, again and again: from the first look to the last mark a command has half a " +
			"max lease, and these masters answer too slowly for that"))
		return
	case p.looks > maxLooks:
		p.fail(errors.New("the masters change meanwhile: is another members command running?"))
		return
	}
	p.next = Step{Do: Look, Names: p.names}
}

func (p *Procedure) fail(err error) { p.next = Step{Do: Failed, Err: err} }

// Looked takes the masters' replies, by their names; no entry for one that did not reply.
func (p *Procedure) Looked(views map[string]*membership.View) {
	var err error
	switch p.plan, err = p.decide(views); {
	case err != nil:
		p.fail(err)
	case p.plan.wait > 0:
		p.next = Step{Do: Pause, Wait: p.plan.wait, Why: p.plan.why}
	case len(p.plan.marks) > 0 && p.plan.tokensOf != nil:
		p.next = Step{Do: ReadTokens, Names: p.plan.tokensOf.Names()}
	default:
		p.write()
	}
}

// Paused reports that the wait is over. The look before it does not count toward maxLooks.
func (p *Procedure) Paused() {
	p.looks--
	p.look()
}

// TokensRead reports which masters' token counters were all read.
func (p *Procedure) TokensRead(names []string) {
	if p.isMajority(names, "read") {
		p.next = Step{Do: RaiseTokens, Names: names}
	}
}

// TokensRaised reports on which masters all token counters were raised.
func (p *Procedure) TokensRaised(names []string) {
	if p.isMajority(names, "raised") {
		p.write()
	}
}

func (p *Procedure) isMajority(names []string, what string) bool {
	if membership.IsMajority(p.plan.tokensOf, names) {
		return true
	}
	p.fail(fmt.Errorf("the token counters were %s on %d of %s, and a majority is needed before the list may change: "+
		"repeat the command when more masters answer", what, len(names), p.plan.tokensOf))
	return false
}

// Wrote takes the reply to a mark. If none comes, the caller calls Unanswered.
func (p *Procedure) Wrote(r scripts.MarkReply) {
	if !r.Written {
		p.late = r.Marker == p.next.seen
		p.look()
		return
	}
	p.plan.marks = p.plan.marks[1:]
	p.write()
}

// Unanswered reports that a mark got no reply: it may have been written, or may be yet.
func (p *Procedure) Unanswered(name string, err error) { p.fail(&UnansweredError{name, err}) }

// UnansweredError is how a run ends whose mark got no reply.
type UnansweredError struct {
	Name string // of the master
	Err  error
}

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("%s: %v (run the same command again to continue)", e.Name, e.Err)
}

func (e *UnansweredError) Unwrap() error { return e.Err }

func (p *Procedure) write() {
	switch {
	case len(p.plan.marks) > 0:
		p.next = p.plan.marks[0]
	case p.plan.again:
		p.look()
	default:
		p.next = Step{Do: Done, Report: p.plan.report}
	}
}

// mark adds a mark to the plan.
func (p *plan) mark(name string, v *membership.View, call scripts.Call) {
	p.marks = append(p.marks, Step{Do: Write, Names: []string{name}, Call: call, seen: v.Seen.Marker})
	p.report.Changed = append(p.report.Changed, name)
}
