package masters

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// ExitCode returns the exit code by the masters' errors if too few masters answered as they should. For errors that
// are not permanent it is cli.ExitUnavailable.
func ExitCode(errs []error, nodes []*node.Node, quorum quorate.Rule) int {
	code := cli.ExitUnavailable
	for _, err := range errs {
		switch n, _ := errors.AsType[*node.Error](err); {
		case n == nil || !n.Permanent():
		case redisconn.RefusesCredentials(n.Err), redisconn.ForbidsUser(n.Err):
			code = cli.ExitCredentials
		case code != cli.ExitCredentials:
			code = cli.ExitConfiguration
		}
	}
	if !quorum.Blocks(Refusing(errs, nodes)) { // even without these errors, too few masters would be left
		return cli.ExitUnavailable
	}
	return code
}

// Refusing returns the nodes that have a permanent error.
func Refusing(errs []error, nodes []*node.Node) (set quorate.Set) {
	for i, n := range nodes {
		if slices.ContainsFunc(errs, func(err error) bool {
			failed, _ := errors.AsType[*node.Error](err)
			return failed != nil && failed.Node == n.Name() && failed.Permanent()
		}) {
			set |= quorate.Of(i)
		}
	}
	return set
}
