// Package hosts tells whether the nodes of a list lead to the same masters on every host.
package hosts

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Mixed returns why nodes make no list: one node's address, which has no other name, leads to another
// process on each host, and another node's doesn't. Two hosts would have the same list with different masters. A
// list of nothing but such addresses is one host's, or goes through tunnels that every host has.
func Mixed(nodes []*node.Node) error {
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
