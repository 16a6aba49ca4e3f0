package masters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// Each calls ask for all nodes at once, by their index, and returns the results in the nodes' order.
func Each[T any](ctx context.Context, nodes []*node.Node, ask func(context.Context, int, *node.Node) T) []T {
	answers := make([]T, len(nodes))
	_ = inside.Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) error {
		answers[i] = ask(ctx, i, n)
		return nil
	})
	return answers
}

// Sleep waits. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// CloseAll closes nodes, all at once.
func CloseAll(nodes []*node.Node) {
	Each(context.Background(), nodes, func(_ context.Context, _ int, n *node.Node) error { return n.Close() })
}

// CloseBy closes the nodes. It does not wait beyond the end of ctx for masters that do not answer: the process ends.
func CloseBy(ctx context.Context, nodes []*node.Node) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		CloseAll(nodes)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

const giveMaxLease = "give the deployment's with -max-lease"

// Reason formats an error without the node's name, which the caller prints, and with the remedy for another max lease.
func Reason(err error) string {
	text := plain.Text(err.Error())
	if failed, ok := errors.AsType[*node.Error](err); ok {
		text = plain.Text(strings.TrimPrefix(failed.Error(), plain.Text(fmt.Sprintf("node %s: ", failed.Node))))
	}
	text = strings.Replace(text, context.DeadlineExceeded.Error(), "no reply in time", 1)
	if errors.Is(err, node.ErrMaxLease) {
		text += ": " + giveMaxLease
	}
	return text
}

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
