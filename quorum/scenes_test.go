package quorum_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/scene"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
)

func init() {
	quorum.NewSemaphore = func(l *quorum.Locker, name string, n int) quorum.Semaphore { return semaphore.New(l, name, n) }
}

// The scenes in testdata are tests of this package, as those in Go are: package scene says how one reads and writes them.
func TestScenes(t *testing.T) { scene.Run(t, "testdata/*.txt", quorum.Left) }
