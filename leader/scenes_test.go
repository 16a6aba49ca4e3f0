package leader_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/scene"
)

// Package scene says how one reads and writes the scenes in testdata.
func TestScenes(t *testing.T) { scene.Run(t, "testdata/*.txt", nil) }
