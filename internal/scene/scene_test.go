package scene

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/world"
)

func TestMain(m *testing.M) {
	world.OneProcessor()
	goleak.VerifyTestMain(m)
}

func TestScenes(t *testing.T) { Run(t, "testdata/*.txt", nil) }
