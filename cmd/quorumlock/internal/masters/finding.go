package masters

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// The states of a master that was checked.
const (
	stateOK         = "ok"
	stateQuarantine = "quarantine" // passes by itself
	stateRefused    = "REFUSED"
	stateFailed     = "FAILED"
)

// Finding is the result of checking one master.
type Finding struct {
	Name   string
	Report operator.Report
	Err    error  // why there is no report
	twin   string // another node of the same process, or empty
	hint   string // why the master may not have answered, or empty
	tried  bool   // of check: a lock was acquired, renewed and released there, and its message was heard
	unfit  error  // of check: why that failed, or nil
}

// CheckAll checks the nodes, all at once. It marks those that are one process under two addresses: their
// votes count as one.
func CheckAll(ctx context.Context, nodes []*node.Node) []Finding {
	found := Each(ctx, nodes, func(ctx context.Context, n *node.Node) Finding {
		report, err := operator.Check(ctx, n)
		return Finding{Name: n.Name(), Report: report, Err: err}
	})
	for i := range found {
		for j := range found {
			if i != j && found[i].Report.RunID != "" && found[i].Report.RunID == found[j].Report.RunID {
				found[i].twin = found[j].Name
			}
		}
	}
	return found
}

// State returns a word for the table: ok, quarantine, REFUSED or FAILED.
func (f Finding) State() string {
	switch {
	case f.Err != nil:
		return stateFailed
	case f.twin != "" || f.Report.Refused != nil || f.unfit != nil:
		return stateRefused
	case f.Report.Quarantine > 0:
		return stateQuarantine
	default:
		return stateOK
	}
}

// StateFor is State as clients with the list see it: another list's master refuses them.
func (f Finding) StateFor(list *scripts.List) string {
	if f.Err == nil && f.NoVote(list) != nil {
		return stateRefused
	}
	return f.State()
}

// IsOK reports whether a master grants locks to clients with the list.
func (f Finding) IsOK(list *scripts.List) bool { return f.StateFor(list) == stateOK }

// isFit reports whether a master is fit for locks. Quarantine passes by itself.
func (f Finding) isFit() bool { return f.State() == stateOK || f.State() == stateQuarantine }

// IsUnused reports whether the quarantine of a master has not begun, because it is no client's yet.
func IsUnused(r operator.Report, maxLease time.Duration) bool {
	return len(r.Members) == 0 && r.Quarantine >= maxLease
}

// List returns the list of masters that the nodes are.
func List(nodes []*node.Node) *scripts.List {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	return scripts.NewList(names...)
}

// NoVote returns why a master has no vote for clients with the list, as a *node.Error, or nil.
func (f Finding) NoVote(list *scripts.List) error {
	r, err := f.Report, error(nil)
	switch {
	case f.Err != nil:
		return f.Err
	case r.Refused != nil:
		err = r.Refused
	case f.twin != "":
		err = fmt.Errorf("%w: it is one process with %s", node.ErrInvalid, f.twin)
	case len(r.Members) > 0 && !list.Equal(scripts.NewList(r.Members...)) && !list.Equal(scripts.NewList(r.Next...)):
		err = fmt.Errorf("%w: it accepts clients with %s, not %s", node.ErrMembership, scripts.NewList(r.Members...), list)
	default:
		return nil
	}
	return &node.Error{Node: f.Name, Op: "check", Err: err}
}

// QuorumSize returns how many masters make a lock. An even number is a step of a change of members.
func QuorumSize(masters int, all bool) int {
	if all {
		return masters
	}
	return quorate.Majority(masters)
}

// granting counts the masters that grant locks to clients whose list was checked. A master that was
// admitted, and has no list yet, grants when its first client comes.
func granting(found []Finding) int {
	return count(found, func(f Finding) bool { return f.State() == stateOK })
}

// count counts the masters of which that holds.
func count(found []Finding, holds func(Finding) bool) (n int) {
	for _, f := range found {
		if holds(f) {
			n++
		}
	}
	return n
}
