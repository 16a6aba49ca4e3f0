package node_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/scene"
)

// The scenes in testdata show what nodes log: package scene says how one reads and writes them.
func TestScenes(t *testing.T) { scene.Run(t, "testdata/*.txt", nil) }
