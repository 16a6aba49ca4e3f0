package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// The states of a master that was checked.
const (
	stateOK         = "ok"
	stateQuarantine = "quarantine" // passes by itself
	stateRefused    = "REFUSED"
	stateFailed     = "FAILED"
)

// finding is the result of checking one node.
type finding struct {
	name   string
	report node.Report
	err    error
	twin   string // another node of the same process, or empty
	hint   string // why the master may not have answered, or empty
	tried  bool   // of check: a lock was acquired, renewed and released there, and its message was heard
	unfit  error  // of check: why that failed, or nil
}

func checkOne(ctx context.Context, n *node.Node) finding {
	report, err := n.Check(ctx)
	return finding{name: n.Name(), report: report, err: err}
}

// findTwins marks nodes that are one process under two addresses: their votes count as one.
func findTwins(found []finding) {
	for i := range found {
		for j := range found {
			if i != j && found[i].report.RunID != "" && found[i].report.RunID == found[j].report.RunID {
				found[i].twin = found[j].name
			}
		}
	}
}

func (f finding) state() string {
	switch {
	case f.err != nil:
		return stateFailed
	case f.twin != "" || f.report.Refused != nil || f.unfit != nil:
		return stateRefused
	case f.report.Quarantine > 0:
		return stateQuarantine
	default:
		return stateOK
	}
}

// isFit reports whether a master is fit for locks. Quarantine passes by itself.
func (f finding) isFit() bool { return f.state() == stateOK || f.state() == stateQuarantine }

// isUnused reports whether the quarantine of a master has not begun, because it is no client's yet.
func isUnused(r node.Report, maxLease time.Duration) bool {
	return len(r.Members) == 0 && r.Quarantine >= maxLease
}

func listOf(nodes []*node.Node) *scripts.List {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	return scripts.NewList(names...)
}

// noVote returns why a master has no vote for clients with the list, as a *node.Error, or nil.
func (f finding) noVote(list *scripts.List) error {
	r, err := f.report, error(nil)
	switch {
	case f.err != nil:
		return f.err
	case r.Refused != nil:
		err = r.Refused
	case f.twin != "":
		err = fmt.Errorf("%w: it is one process with %s", node.ErrInvalid, f.twin)
	case len(r.Members) > 0 && !list.Equal(scripts.NewList(r.Members...)) && !list.Equal(scripts.NewList(r.Next...)):
		err = fmt.Errorf("%w: it accepts clients with %s, not %s", node.ErrMembership, scripts.NewList(r.Members...), list)
	default:
		return nil
	}
	return &node.Error{Node: f.name, Op: "check", Err: err}
}

// quorumSize returns how many masters make a lock. An even number is a step of a change of members.
func quorumSize(masters int, all bool) int {
	if all {
		return masters
	}
	return masters/2 + 1
}

// granting counts the masters that grant locks to clients whose list was checked. A master that was
// admitted, and has no list yet, grants when its first client comes.
func granting(found []finding) (count int) {
	for _, f := range found {
		if f.state() == stateOK {
			count++
		}
	}
	return count
}
