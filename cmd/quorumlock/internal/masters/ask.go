package masters

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/plain"
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
