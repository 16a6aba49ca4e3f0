package shell

import (
	"testing"

	"github.com/quorumlock/quorumlock/quorum/model/internal/mutate"
)

func in(file, text, now string) []mutate.Edit {
	return []mutate.Edit{{File: "quorum/internal/" + file, Text: text, Now: now}}
}

// mutants leave out a rule of the shell each. Setup is the scenario that finds it.
var mutants = []mutate.Mutant[string]{
	{Rule: "contexts end with no mutex locked", Setup: "a loss and Unlock",
		Edits: in("engine/hold.go", "h.engine.background.start(h.finishLost)", "h.endContexts(); h.engine.background.start(h.finishLost)")},
}

func TestMutants(t *testing.T) {
	mutate.Run(t, mutants, nil, nil, func(name string) {
		for _, s := range scenarios {
			if s.name == name {
				t.Log(s.search(t, 3, 5_000))
			}
		}
	}, steppedFiles...)
}
