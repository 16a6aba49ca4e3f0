package masters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// The states of a master that was checked.
const (
	stateOK         = "ok"
	stateQuarantine = "quarantine"  // passes by itself
	stateBlank      = "BLANK"       // it has no list of masters, and no quarantine is counted down
	stateHalfMarked = "HALF-MARKED" // claimed, and its quarantine is over
	stateRefused    = "REFUSED"
	stateFailed     = "FAILED"
)

// Finding is the result of checking one master.
type Finding struct {
	Name   string
	Report operator.Report
	Err    error // why there is no report
	// NoVote is why the master has no vote for clients with the list of all masters that were checked, as a
	// *node.Error, or nil.
	NoVote     error
	maxLease   time.Duration        // of these clients
	ready      membership.Readiness // for these clients, with these users
	claimed    bool                 // for these clients: one has begun to mark it, and none has confirmed that
	awaitsAll  bool                 // claimed, and no client finishes that while masters are missing
	awaitsLock bool                 // it grants nothing until a client's next lock marks it, or finishes its mark
	twin       string               // another node of the same process, or empty
	two        error                // of check and admit: its Sentinels name two masters, or nil
	rate       string               // how its clock's rate differs from this machine's, or empty
	hint       string               // why the master may not have answered, or empty
	tried      bool                 // of check: a lock was acquired, renewed and released there
	unfit      error                // of check: why that failed, or nil
	unheard    error                // of check: why no waiter hears of that release, or nil
}

// CheckAll checks the nodes, all at once, and judges whether they grant to clients whose list they are. Two nodes
// that are the same process under two addresses grant nothing: their votes would count as one.
func CheckAll(ctx context.Context, nodes []*node.Node) []Finding {
	found := Each(ctx, nodes, func(ctx context.Context, _ int, n *node.Node) Finding {
		if slices.ContainsFunc(inside.Of(n).Pipes, func(p *pipeline.Pipe) bool { return p.Down() != nil }) {
			// It was asked already, and nobody waits for it as long as a first connection may take.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, n.Timeout())
			defer cancel()
		}
		report, err := operator.Check(ctx, n)
		return Finding{Name: n.Name(), Report: report, Err: err, maxLease: n.MaxLease()}
	})
	for i := range found {
		for j := range found {
			if i != j && found[i].Report.RunID != "" && found[i].Report.RunID == found[j].Report.RunID {
				found[i].twin = found[j].Name
			}
		}
	}
	judge(found, nodes)
	return found
}

// askSentinels asks each Sentinel of the URLs. One that leads to no master is a hazard; two masters of one name grant nothing.
func askSentinels(ctx context.Context, nodes []*node.Node, found []Finding) {
	Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) error {
		f := &found[i]
		var notes []string
		notes, f.two = inside.Of(n).Server.AskSentinels(ctx)
		f.Report.Hazards = append(f.Report.Hazards, notes...)
		return nil
	})
	judge(found, nodes)
}

var errBlank = errors.New("it has no list of masters: it is new, or has forgotten, and grants nothing until a client marks it. " + lockAny)

var errHalfMarked = errors.New("half-marked: its quarantine is over, and it grants nothing until a client finishes the mark. " + lockAny)

var errOtherClaim = errors.New("it is being marked for another list, and most masters have this one: it grants nothing until a client with " +
	"this one marks it. " + lockAny)

const lockAny = "Lock any name with this list: quorumlock run NAME -- true"

// judge sets which masters have a vote, and which grant.
func judge(found []Finding, nodes []*node.Node) {
	client := membership.Client{List: List(nodes), Found: true, Exists: true,
		Quarantine: func(i int) time.Duration { return inside.Of(nodes[i]).Quarantine }}
	views, errs := make([]*membership.View, len(found)), make([]error, len(found))
	isKnown := false // a master accepts these clients
	for i := range found {
		f, r, relation := &found[i], found[i].Report, membership.Relation(0)
		view := inside.Of(r).View
		if view != nil {
			relation = view.Relation(client.List)
		}
		switch {
		case f.Err != nil:
			errs[i] = f.Err
		case r.Refused != nil:
			errs[i] = f.error(r.Refused)
		case f.two != nil:
			errs[i] = f.error(f.two)
		case f.twin != "":
			errs[i] = f.error(fmt.Errorf("%w: it is the same process as %s", node.ErrInvalid, f.twin))
		case relation != membership.Refuses && relation != membership.Accepts && r.RefusesWrites != nil: // nobody can mark it
			errs[i] = f.error(r.RefusesWrites)
			continue
		case relation == membership.Refuses:
			f.NoVote = f.error(view.Refusal(client.List))
			fallthrough
		default:
			views[i], isKnown = view, isKnown || relation == membership.Accepts
			continue
		}
		f.NoVote = errs[i]
	}
	isMissing := func(v *membership.View) bool {
		return v == nil || v.Relation(client.List) == membership.Refuses || v.HadAnother(client.List)
	}
	canFinish := client.MayMark(views) || !slices.ContainsFunc(views, isMissing)
	marks := client.Plan(views)
	isMarkable := len(marks) > 0 // by any client with the list
	founder := client
	founder.Exists = false
	isFoundable := len(founder.Plan(views)) > 0 // by one without WithoutFounding
	for i := range found {
		f := &found[i]
		f.ready = client.Readiness(views, errs, i)
		f.claimed = views[i] != nil && views[i].Relation(client.List) == membership.Claimed
		f.awaitsAll = f.claimed && !canFinish
		isOtherClaim := views[i] != nil && views[i].IsMarked() && views[i].HadAnother(client.List)
		if isOtherClaim && !slices.ContainsFunc(marks, func(mark membership.Mark) bool { return mark.Node == i }) {
			f.NoVote = f.error(views[i].Refusal(client.List)) // this list's clients do not overrule the claim
		}
		isBlank := f.ready.Err != nil && f.NoVote == nil && views[i] != nil
		f.awaitsLock = isBlank && isFoundable
		switch {
		case isBlank && isMarkable && f.claimed:
			f.ready.Err = errHalfMarked
		case isBlank && isMarkable && isOtherClaim:
			f.ready.Err = errOtherClaim
		case isBlank && isMarkable:
			f.ready.Err = errBlank
		case isBlank && !isKnown && f.Report.Quarantine == 0: // an operator has admitted it
			f.ready.Err = nil
		case f.ready.Err == nil:
			f.ready.Err = f.Report.RefusesWrites
		}
		if f.ready.Err != nil {
			f.ready.Err = f.error(f.ready.Err)
		}
	}
}

// error returns an error that names the master, if err does not.
func (f Finding) error(err error) error {
	if _, named := errors.AsType[*node.Error](err); named {
		return err
	}
	return &node.Error{Node: f.Name, Op: "check", Err: err}
}

// State returns a word for the table.
func (f Finding) State() string {
	switch {
	case f.Err != nil:
		return stateFailed
	case f.ready.Err != nil && f.NoVote == nil && f.Report.RefusesWrites == nil && f.unfit == nil:
		if f.claimed {
			return stateHalfMarked
		}
		return stateBlank
	case f.ready.Err != nil:
		return stateRefused
	case f.ready.In > 0:
		return stateQuarantine
	}
	return stateOK
}

// IsClaimed reports whether one of these clients has begun to mark the master, and none has confirmed that.
func (f Finding) IsClaimed() bool { return f.claimed }

// IsHalfMarked reports whether the master grants nothing until a client finishes its mark, its quarantine over.
func (f Finding) IsHalfMarked() bool { return f.is(stateHalfMarked) }

// IsOK reports whether the master grants locks to clients whose list was checked. One that was admitted, and has no
// list yet, grants when its first client comes.
func (f Finding) IsOK() bool { return f.State() == stateOK }

// Refusal returns why the master grants nothing, however long one waits, as a *node.Error, or nil.
func (f Finding) Refusal() error { return f.ready.Err }

// isFit reports whether a master is fit for locks. Quarantine passes by itself, and a client makes a blank or half-marked
// master grant.
func (f Finding) isFit() bool { return f.ready.Err == nil || f.is(stateBlank) || f.IsHalfMarked() }

func (f Finding) is(state string) bool { return f.State() == state }

// Outlook says whether a quorum of the masters grants, or will; it is empty if it grants now.
func Outlook(found []Finding, quorum quorate.Rule) string {
	grant := fmt.Sprintf("%s, and %d must", granting(found), quorum.Need)
	isUnmarked := func(f Finding) bool { return f.awaitsLock && !f.claimed }
	_, isEnoughMarked := readyIn(found, quorum, isAwaitingLock)
	_, isEnoughAnswering := readyIn(found, quorum, isAway)
	_, isEnoughLater := readyIn(found, quorum, func(f Finding) bool { return f.waitsFor() != "" || f.isFit() || isAway(f) })
	_, isEnoughWaiting := readyIn(found, quorum, func(f Finding) bool { return f.waitsFor() != "" })
	var until []string // each by itself, or together what may come
	for _, f := range found {
		what, helps := f.waitsFor(), isEnoughWaiting || isEnoughLater && !isEnoughMarked
		if what != "" && helps && !slices.Contains(until, what) {
			until = append(until, what)
		}
	}
	if isEnoughMarked {
		marks := "finishes the masters' marks"
		if slices.ContainsFunc(found, isUnmarked) {
			marks = "marks the masters"
		}
		until = append(until, "the next lock of a client "+marks+" (quorumlock run NAME -- true)")
	}
	switch in, ok := readyIn(found, quorum, isNone); {
	case !ok && until != nil:
		return "nothing new can be locked until " + strings.Join(until, ", or ") + ": " + grant
	case !ok && isEnoughAnswering:
		return "nothing new can be locked until more masters answer: " + grant
	case !ok:
		return "nothing new can be locked, and waiting alone does not change that: " + grant
	case in > 0:
		return fmt.Sprintf("nothing new is locked for another %s: %s", Left(in), grant)
	}
	return ""
}

// granting says how many masters grant.
func granting(found []Finding) string {
	grant, ending := thoseThat(found, Finding.IsOK).Len(), ""
	if grant == 1 {
		ending = "s"
	}
	return fmt.Sprintf("%d of %d masters grant%s", grant, len(found), ending)
}

// waitsFor says what has to become true before the server grants, if that may come by itself; otherwise nothing.
func (f Finding) waitsFor() string {
	failed, _ := errors.AsType[*node.Error](f.ready.Err)
	view := f.Look().View
	isNextMaster := errors.Is(f.Report.Refused, node.ErrReplica) && view != nil && view.Process.Replicas() > 0
	isOneOfTwo := f.Err == nil && errors.Is(f.ready.Err, node.ErrInvalid) && !failed.Permanent()
	switch {
	case isNextMaster || isOneOfTwo:
		return "a failover is over"
	case errors.Is(f.ready.Err, redisconn.ErrNotReplicated):
		return "each master has exactly the N replicas of its ?failover=N, and they acknowledge"
	case redisconn.HasCode(f.ready.Err, "NOREPLICAS"):
		return "the masters have as many replicas as their min-replicas-to-write"
	}
	return ""
}

func isNone(Finding) bool           { return false }
func isAwaitingLock(f Finding) bool { return f.awaitsLock }

// isAway reports whether a master did not answer, and may by itself: it starts, or fails over.
func isAway(f Finding) bool {
	err, ok := errors.AsType[*node.Error](f.Err)
	return ok && !err.Permanent()
}

// readyIn returns how long until a quorum of the masters grants, 0 for now. ok is false if it never will by itself.
// Masters count as granting if that holds.
func readyIn(found []Finding, quorum quorate.Rule, grants func(Finding) bool) (in time.Duration, ok bool) {
	all := make([]membership.Readiness, len(found))
	for i, f := range found {
		switch {
		case grants(f):
		case f.awaitsAll:
			all[i].Err = errHalfMarked
		default:
			all[i] = f.ready
		}
	}
	return membership.ReadyIn(all, quorum)
}

// IsUnused reports whether the master's quarantine has not begun, because no client has used it yet.
func (f Finding) IsUnused() bool {
	return !f.claimed && len(f.Report.Members) == 0 && f.Report.Quarantine >= f.maxLease
}

// List returns the nodes as a list of masters.
func List(nodes []*node.Node) *scripts.List {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	return scripts.NewList(names...)
}

// Quorum returns which masters make a lock. An even number is a step of a change of members.
func Quorum(masters int, all bool) quorate.Rule {
	if all {
		return quorate.All(masters)
	}
	return quorate.Majority(masters)
}

func thoseThat(found []Finding, holds func(Finding) bool) (set quorate.Set) {
	for i, f := range found {
		if holds(f) {
			set |= quorate.Of(i)
		}
	}
	return set
}
