package quorum_test

import (
	"context"
	"testing"

	"github.com/quorumlock/quorumlock/internal/scene"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
)

func init() {
	quorum.NewSemaphore = func(l *quorum.Locker, name string, n int) quorum.Semaphore { return semaphore.New(l, name, n) }
	quorum.Operate(inspect, operator.ForceUnlock)
}

func inspect(ctx context.Context, l *quorum.Locker, name string) (quorum.Inspected, error) {
	state, err := operator.Inspect(ctx, l, name)
	is := quorum.Inspected{Owner: state.Owner, Identity: state.Identity}
	for _, n := range state.Nodes {
		is.Owners, is.Errs = append(is.Owners, n.Owner), append(is.Errs, n.Err)
	}
	return is, err
}

// The scenes in testdata are tests of this package, as those in Go are: package scene says how one reads and writes them.
func TestScenes(t *testing.T) { scene.Run(t, "testdata/*.txt", quorum.Left) }
