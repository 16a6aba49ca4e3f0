package lease

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var writesTable = flag.Bool("model.table", false, "write the table of mutants into docs/safety.md")

const (
	safetyFile = "../../../docs/safety.md"
	tableHead  = "| rule left out | in | edit | shortest trace |\n|---|---|---|---|\n"
	tableEnd   = "<!-- the end of the table -->"
)

// row is a mutant as the table has it.
func (m *mutant) row(found string) string {
	var files, edits []string
	for _, e := range m.edits {
		files = append(files, "`"+filepath.Base(e.File)+"`")
		edits = append(edits, fmt.Sprintf("%s → %s", shown(e.Text), shown(e.Now)))
	}
	if m.harmless != "" {
		found = "none. " + m.harmless
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", m.rule, strings.Join(files, ", "), strings.Join(edits, "; "), found)
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

func writeTable(t *testing.T, rows []string) {
	text, err := os.ReadFile(safetyFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), tableHead)
	_, after, found := strings.Cut(rest, tableEnd)
	if !found {
		t.Fatalf("%s has no table of mutants", safetyFile)
	}
	if err := os.WriteFile(safetyFile, []byte(before+tableHead+strings.Join(rows, "")+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The table in docs/safety.md has the mutants, as they are.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(safetyFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), tableHead)
	table, _, _ := strings.Cut(rest, tableEnd)
	rows := strings.SplitAfter(table, "\n")
	if len(rows) != len(mutants)+1 {
		t.Fatalf("the table has %d rows, and there are %d mutants: run go test ./quorum/model/lease -run TestMutants -model.table",
			len(rows)-1, len(mutants))
	}
	for i, m := range mutants {
		if want := strings.TrimSuffix(m.row(""), " |\n"); !strings.HasPrefix(rows[i], want) {
			t.Errorf("row %d is\n%swant\n%s…", i+1, rows[i], want)
		}
	}
}
