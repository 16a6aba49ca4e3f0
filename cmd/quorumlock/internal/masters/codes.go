package masters

import (
	"errors"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// ExitCode returns the exit code by the masters' errors if too few masters answered as they should. For errors that
// are not permanent it is cli.ExitUnavailable.
func ExitCode(errs []error, masters, need int) int {
	code, usable := cli.ExitUnavailable, masters
	for _, err := range errs {
		var n *node.Error
		if !errors.As(err, &n) || !n.Permanent() {
			continue
		}
		usable--
		switch {
		case redisconn.RefusesCredentials(n.Err), redisconn.ForbidsUser(n.Err):
			code = cli.ExitCredentials
		case code != cli.ExitCredentials:
			code = cli.ExitConfiguration
		}
	}
	if usable >= need { // even without these errors, too few masters would be left
		return cli.ExitUnavailable
	}
	return code
}
