package mutate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

var writesTable = flag.Bool("model.table", false, "write this package's table of mutants into docs/reports/mutants.md")

const tablesFile = "../../../docs/reports/mutants.md"

// Table is a package's table of mutants in docs/reports/mutants.md.
type Table struct {
	Head string // its first two lines
	End  string // the line after it, which no other table has
}

// row is a mutant as a table has it: the rule that it leaves out, and what the search found.
func (m *Mutant[S]) row(found string) string {
	if m.Harmless != "" {
		found = "none. " + m.Harmless
	}
	var files, texts []string
	for _, e := range m.Edits {
		files = append(files, "`"+filepath.Base(e.File)+"`")
		texts = append(texts, fmt.Sprintf("%s → %s", shown(e.Text), shown(e.Now)))
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", m.Rule, strings.Join(files, ", "), strings.Join(texts, "; "), found)
}

// shown is a piece of code in one line of a table.
func shown(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	if code == "" {
		return "nothing"
	}
	if letters := []rune(code); len(letters) > 70 {
		code = string(letters[:70]) + "…"
	}
	return "`" + strings.ReplaceAll(code, "|", "\\|") + "`"
}

// write writes the rows into the table, if the flag asks for that and there is one for each mutant.
func (table *Table) write(t *testing.T, rows []string, mutants int) {
	t.Helper()
	if !*writesTable || len(rows) != mutants || t.Failed() {
		return
	}
	before, _, after := table.find(t)
	testkit.Must(t, os.WriteFile(tablesFile, []byte(before+strings.Join(rows, "")+after), 0o644))
}

// Check wants a row of the table for each mutant, as it is. What the search found last is not compared.
func Check[S any](t *testing.T, table *Table, mutants []Mutant[S]) {
	t.Helper()
	_, rows, _ := table.find(t)
	got := strings.SplitAfter(rows, "\n")
	testkit.Require(t, len(got) == len(mutants)+1,
		"the table has %d rows, and there are %d mutants: run TestMutants with -model.table", len(got)-1, len(mutants))
	for i, m := range mutants {
		if row := strings.TrimSuffix(m.row(""), " |\n"); !strings.HasPrefix(got[i], row) {
			t.Errorf("row %d is\n%swant\n%s…\nrun TestMutants with -model.table", i+1, got[i], row)
		}
	}
}

// find returns the table's rows, and the text before and after them.
func (table *Table) find(t *testing.T) (before, rows, after string) {
	t.Helper()
	text, err := os.ReadFile(tablesFile)
	testkit.Must(t, err)
	end := strings.Index(string(text), table.End)
	testkit.Require(t, end >= 0, "%s has no line %q", tablesFile, table.End)
	head := strings.LastIndex(string(text[:end]), table.Head)
	testkit.Require(t, head >= 0, "%s has no table before %q", tablesFile, table.End)
	begin := head + len(table.Head)
	return string(text[:begin]), string(text[begin:end]), string(text[end:])
}
