package mutate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

const shippedFile = "shipped.go"

const shipped = `package shipped

const limit = 3

type number int

func (number) zero() int { return 0 }

func first(a, _ int) int { return a }

// double is what a mutant edits.
func double(n int) int {
	return 2 * n
}
`

// root returns a directory with the shipped file.
func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, shippedFile), []byte(shipped), 0o600))
	return dir
}

func mutant(rule, text, now string) Mutant[int] {
	return Mutant[int]{Rule: rule, Edits: []Edit{{File: shippedFile, Text: text, Now: now}}}
}

func TestErrorsSayWhatAnEditMayNot(t *testing.T) {
	for name, c := range map[string]struct {
		mutants []Mutant[int]
		want    []string
	}{
		"no such text": {[]Mutant[int]{mutant("a rule", "3 * n", "n")}, []string{shippedFile, "a rule", "has no", "3 * n"}},
		"no such file": {[]Mutant[int]{{Rule: "a rule", Edits: []Edit{{File: "other.go", Text: "n"}}}}, []string{"other.go"}},
		"no Go":        {[]Mutant[int]{mutant("a rule", "2 * n", "2 *")}, []string{shippedFile, "a rule", "14:"}},
		"a constant":   {[]Mutant[int]{mutant("a rule", "limit = 3", "limit = 4")}, []string{shippedFile, "a rule", "bodies"}},
		"a comment":    {[]Mutant[int]{mutant("a rule", "double", "treble")}, []string{shippedFile, "a rule", "bodies"}},
		"nothing":      {[]Mutant[int]{mutant("a rule", "2 * n", "2 *n // n")}, []string{shippedFile, "a rule", "the same code"}},
		"a parameter":  {[]Mutant[int]{mutant("a rule", "double(n int)", "double()")}, []string{shippedFile, "a rule", "bodies"}},
		"no receiver":  {[]Mutant[int]{mutant("a rule", "return 0", "return 1")}, []string{"a rule", "receiver of zero", "no name"}},
		"a blank one":  {[]Mutant[int]{mutant("a rule", "return a", "return 1")}, []string{"a rule", "parameter of first", "no name"}},
		"one rule twice": {[]Mutant[int]{mutant("a rule", "2 * n", "n"), mutant("a rule", "2 * n", "0*n")},
			[]string{"two mutants", "a rule"}},
	} {
		err := edit(map[string]*file{}, root(t), c.mutants, nil)
		for _, part := range c.want {
			testkit.Check(t, err != nil && strings.Contains(err.Error(), part), "%s: %v, without %q", name, err, part)
		}
	}
}

// The compiler's errors have the lines of the shipped file, and name the mutant in whose copy they are.
func TestCopiesNameTheirMutants(t *testing.T) {
	dir := root(t)
	two := Mutant[int]{Rule: "three times", Edits: []Edit{{shippedFile, "2 * n", "\n\t\t5 * n"}, {shippedFile, "5 * n", "3 * n + more"}}}
	files := map[string]*file{}
	err := edit(files, dir, []Mutant[int]{mutant("once", "2 * n", "n"), two}, map[string]string{shippedFile: "\nvar more int\n"})
	testkit.Must(t, err)
	set := token.NewFileSet()
	parsed := testkit.Got(parser.ParseFile(set, "mutated.go", files[shippedFile].mutated(), 0))(t)
	path, found := filepath.Join(dir, shippedFile), map[string]token.Position{}
	for _, decl := range parsed.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			found[fn.Name.Name] = set.Position(fn.End())
		}
	}
	for name, want := range map[string]struct {
		file string
		line int
	}{
		"double":          {path, 14},
		"doubleOfMutant1": {path + ` without the rule "once"`, 14},
		"doubleOfMutant2": {path + ` without the rule "three times"`, 15},
	} {
		testkit.Check(t, found[name].Filename == want.file && found[name].Line == want.line, "%s ends at %v, want %v", name, found[name], want)
	}
}
