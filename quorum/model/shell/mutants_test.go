package shell

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/quorum/model/internal/mutate"
)

// mutant leaves out a rule of the shell.
type mutant struct {
	rule  string
	edits []mutate.Edit
	found string // what the search says of it
	in    string // the scenario that finds it
}

const engine = "quorum/internal/engine/"

func edit(file, text, now string) []mutate.Edit { return []mutate.Edit{{File: engine + file, Text: text, Now: now}} }

var mutants = []mutant{
	{rule: "contexts end with no mutex locked", found: "with a mutex locked", in: "a loss and Unlock",
		edits: edit("hold.go", "h.engine.background.start(h.finishLost)", "h.endContexts(); h.engine.background.start(h.finishLost)")},
}

func TestMutants(t *testing.T) {
	if rule := mutate.Rule(); rule != "" {
		for _, m := range mutants {
			if m.rule != rule {
				continue
			}
			for _, s := range scenarios {
				if s.name == m.in {
					t.Log(s.search(t, 3, 20_000))
				}
			}
		}
		return
	}
	binary := build(t)
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			if out := binary.Search(t, m.rule); !strings.Contains(out, m.found) {
				t.Errorf("no order of steps shows that the rule is left out:\n%s", out)
			}
		})
	}
}
