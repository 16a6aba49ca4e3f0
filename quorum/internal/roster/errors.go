package roster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

var (
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

// OneProcess is the error of a node that leads to the same process as another: together they are one member, with one
// vote.
func OneProcess(n, other *node.Node) error {
	return NodeError(n, "acquire", fmt.Errorf("%w: it is the same process as node %s", node.ErrInvalid, other.Name()))
}

// MixedHosts returns why nodes make no list: one node's address, which has no other name, leads to another
// process on each host, and another node's doesn't. Two hosts would have the same list with different masters. A
// list of nothing but such addresses is one host's, or goes through tunnels that every host has.
func MixedHosts(nodes []*node.Node) error {
	var own, shared *node.Node
	for _, n := range nodes {
		isNamed := inside.Of(n).Named
		switch name := n.Name(); {
		case name == inside.Unnamed, isNamed && (n.Address() == "" || isOfHost(n.Address())):
		case !isNamed && isOfHost(name):
			own = n
		default:
			shared = n
		}
	}
	if own == nil || shared == nil {
		return nil
	}
	return fmt.Errorf("%w: %s is another process on each host, and %s is not: give its URL the address that all clients use, or a name "+
		"(?name=..., or node.WithName) that is this master's alone", node.ErrInvalid, own.Name(), shared.Name())
}

// isOfHost reports whether an address leads to the host that uses it: a loopback address, or a socket's path.
func isOfHost(address string) bool {
	if strings.HasPrefix(address, "/") {
		return true
	}
	host, _, _ := net.SplitHostPort(address) // the number of a database is taken for a part of the port
	ip, _ := netip.ParseAddr(host)
	host = strings.ToLower(host) // localhost.localdomain and ip6-localhost are in many hosts' files
	return ip.Unmap().IsLoopback() || ip.IsUnspecified() ||
		strings.Contains(host, "localhost") || host == "ip6-loopback"
}

// unnamed returns why the list of masters is not known, judging by a node that has answered.
func (r *Roster) unnamed(i int) error {
	if err := MixedHosts(r.nodes); err != nil {
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
