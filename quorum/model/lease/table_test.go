package lease

import (
	"testing"

	"github.com/quorumlock/quorumlock/quorum/model/internal/mutate"
)

var table = mutate.Table{
	Head: "| rule left out | in | edit | shortest trace |\n|---|---|---|---|\n",
	End:  "<!-- the end of the table -->",
}

// row is a mutant as the table has it.
func (m *mutant) row(found string) string {
	if m.harmless != "" {
		found = "none. " + m.harmless
	}
	return mutate.Row(m.rule, m.edits, found)
}

// The table in docs/reports/mutants.md has the mutants, as they are.
func TestTable(t *testing.T) {
	var rows []string
	for _, m := range mutants {
		rows = append(rows, m.row(""))
	}
	table.Check(t, rows)
}
