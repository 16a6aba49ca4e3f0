package roster

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

var (
	errUnmarked = errors.New("the master is new or has forgotten its list of masters. A client gives it its list when a " +
		"majority of the masters carry that list, or all of them answer and none has another; " +
		"quorumlock admit -members does so on your word")
	errUnmarkedExisting = errors.New("the master is new or has forgotten its list of masters. A client that was told that " +
		"the deployment exists gives it its list when a majority of the masters carry that list; " +
		"quorumlock admit -members does so on your word")
	errUnmarkable = fmt.Errorf("%w: the master is new or has forgotten its list of masters, and does not get "+
		"this client's, which another of its masters refuses", node.ErrMembership)
	errForgotList = errors.New("the master had forgotten its list of masters")
	errUnnamed    = errors.New("the list of masters is not known: a node over a pool has no name until it is " +
		"connected to (node.WithName gives it one)")
)

// NodeError makes err a *node.Error that names the node, unless it is one. It returns nil for nil.
func NodeError(n *node.Node, op string, err error) error {
	if err == nil {
		return nil
	}
	var known *node.Error
	if errors.As(err, &known) {
		return err
	}
	return &node.Error{Node: n.Name(), Op: op, Err: err}
}

// OneProcess is the error of a node whose process is also that of another: it is one member, with
// one vote.
func OneProcess(n, other *node.Node) error {
	return NodeError(n, "acquire", fmt.Errorf("%w: it is one process with node %s", node.ErrInvalid, other.Name()))
}

// unnamed returns why the list of masters is not known, as far as a node that has answered shows.
func (r *Roster) unnamed(i int) error {
	name := r.nodes[i].Name()
	for j, other := range r.nodes {
		switch {
		case name == inside.Unnamed:
			return fmt.Errorf("%w: the server does not tell its address: a node over a pool is then given a name, "+
				"by node.WithName", node.ErrInvalid)
		case j != i && other.Name() == name:
			return fmt.Errorf("%w: the servers of two nodes over pools tell the same address, %s: give the nodes names, "+
				"by node.WithName", node.ErrInvalid, name)
		}
	}
	return errUnnamed
}
