package roster

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/hosts"
	"github.com/quorumlock/quorumlock/node"
)

var (
	errForgotList = errors.New("the master had forgotten its list of masters")
	errUnnamed    = errors.New("the list of masters is not known: a node over a pool has no name until it is " +
		"connected to (node.WithName gives it one)")
)

// NodeError makes err a *node.Error that names the node, unless it is one. It returns nil for nil.
func NodeError(n *node.Node, op string, err error) error {
	if _, named := errors.AsType[*node.Error](err); named || err == nil {
		return err
	}
	return &node.Error{Node: n.Name(), Op: op, Err: err}
}

// OneProcess is the error of a node that leads to the same process as another: together they are one member, with one
// vote.
func OneProcess(n, other *node.Node) error {
	return NodeError(n, "acquire", fmt.Errorf("%w: it is the same process as node %s", node.ErrInvalid, other.Name()))
}

// unnamed returns why the list of masters is not known, judging by a node that has answered.
func (r *Roster) unnamed(i int) error {
	if err := hosts.Mixed(r.nodes); err != nil {
		return err
	}
	name := r.nodes[i].Name()
	for j, other := range r.nodes {
		if j != i && other.Name() == name {
			return fmt.Errorf("%w: the servers of two nodes over pools tell the same address, %s: give the nodes names, "+
				"by node.WithName", node.ErrInvalid, name)
		}
	}
	return errUnnamed
}
