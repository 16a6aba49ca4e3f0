package contexts

import (
	"context"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

func Example() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	ctx := context.Background()
	masters.Locker().Do(ctx, func(held context.Context, _ *quorum.Lock) error {
		return work(ctx) // want `ctx does not end`
	}, "a")
	// Output:
}
