package scene

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/bubble"
)

func TestMain(m *testing.M) {
	bubble.OneProcessor()
	goleak.VerifyTestMain(m)
}

func TestScenes(t *testing.T) { Run(t, "testdata/*.txt", nil) }
