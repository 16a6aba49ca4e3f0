// Package mutate runs a package's TestMutants on mutants: the shipped code with an edit that leaves out
// one rule. All mutants of a package are compiled into one test binary. Beside each function that an edit
// changes stands an edited copy, and the function calls the copy of the mutant that the process runs.
package mutate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Mutant leaves out one rule.
type Mutant struct {
	Rule  string
	Edits []Edit
}

// Edit replaces every place of a text in a file, whose path begins at the module's root. The places are
// in functions.
type Edit struct{ File, Text, Now string }

var rule = flag.String("model.mutant", "", "search the setup of this mutant; TestMutants calls itself so")

// Rule returns the rule that the mutant leaves out, if this process runs one.
func Rule() string { return *rule }

// numberEnv has the number of the mutant that a process runs, from 1.
const numberEnv = "QUORUMLOCK_MUTANT"

// numberFile declares that number in each package that has edits.
const numberFile = `package %s

import (
	"os"
	"strconv"
)

var mutantNumber, _ = strconv.Atoi(os.Getenv("` + numberEnv + `"))
`

// Binary is the caller's test binary with the mutants.
type Binary struct {
	path  string
	rules []string
}

// Build compiles the caller's package with the mutants. The text of more is appended to files, by their
// paths.
func Build(t *testing.T, mutants []Mutant, more map[string]string) *Binary {
	t.Helper()
	root, err := filepath.Abs("../../..")
	must(t, err)
	b, files := &Binary{path: filepath.Join(t.TempDir(), "mutants.test")}, map[string]*file{}
	for _, m := range mutants {
		b.rules = append(b.rules, m.Rule)
		edited := map[string]string{}
		for _, e := range m.Edits {
			if files[e.File] == nil {
				files[e.File] = read(t, root, e.File, more[e.File])
			}
			if edited[e.File] == "" {
				edited[e.File] = files[e.File].text
			}
			if !strings.Contains(edited[e.File], e.Text) {
				t.Fatalf("%s has no %q any more", e.File, e.Text)
			}
			edited[e.File] = strings.ReplaceAll(edited[e.File], e.Text, e.Now)
		}
		for name, text := range edited {
			if err := files[name].add(len(b.rules), text); err != nil {
				t.Fatalf("%s: the mutant without the rule %q: %v", name, m.Rule, err)
			}
		}
	}
	overlay := write(t, root, files)
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-c", "-ldflags=-s -w",
		"-o", b.path, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return b
}

// Search runs TestMutants of the binary as the mutant without that rule, and returns what it prints.
func (b *Binary) Search(t *testing.T, rule string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.path, "-test.v", "-test.run", "TestMutants", "-model.mutant", rule)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", numberEnv, 1+slices.Index(b.rules, rule)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// file is a shipped file with the copies of its functions.
type file struct {
	text   string
	parsed *ast.File
	calls  map[int]string // by function: what it begins with
	copies bytes.Buffer
}

func read(t *testing.T, root, name, more string) *file {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, name))
	must(t, err)
	f := &file{text: string(source) + more, calls: map[int]string{}}
	f.parsed, err = parse(f.text)
	must(t, err)
	return f
}

// parse parses a file. A position in it is an offset in the text, plus 1.
func parse(text string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
}

// add adds the copies of a mutant, whose file has that text.
func (f *file) add(mutant int, text string) error {
	parsed, err := parse(text)
	if err != nil {
		return err
	}
	before, after := functions(f.parsed), functions(parsed)
	if len(before) != len(after) || without(f.text, before) != without(text, after) {
		return fmt.Errorf("it differs outside functions")
	}
	for i, fn := range after {
		copied := text[fn.Pos()-1 : fn.End()-1]
		if copied == f.text[before[i].Pos()-1:before[i].End()-1] {
			continue
		}
		call, err := callOf(before[i], fmt.Sprintf("%sOfMutant%d", fn.Name.Name, mutant))
		if err != nil {
			return err
		}
		f.calls[i] += fmt.Sprintf(" if mutantNumber == %d { %s };", mutant, call)
		name := fn.Name.End() - fn.Pos()
		fmt.Fprintf(&f.copies, "\n%sOfMutant%d%s\n", copied[:name], mutant, copied[name:])
	}
	return nil
}

func functions(f *ast.File) (all []*ast.FuncDecl) {
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			all = append(all, fn)
		}
	}
	return all
}

// without returns the text without its functions.
func without(text string, all []*ast.FuncDecl) string {
	for _, fn := range slices.Backward(all) {
		text = text[:fn.Pos()-1] + text[fn.End()-1:]
	}
	return text
}

// callOf returns the statements with which a function does what another of the same parameters does.
func callOf(fn *ast.FuncDecl, other string) (string, error) {
	var args []string
	for _, field := range fn.Type.Params.List {
		if len(field.Names) == 0 {
			return "", fmt.Errorf("a parameter of %s has no name", fn.Name)
		}
		for _, name := range field.Names {
			arg := name.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	call := fmt.Sprintf("%s(%s)", other, strings.Join(args, ", "))
	if fn.Recv != nil {
		call = fn.Recv.List[0].Names[0].Name + "." + call
	}
	if fn.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// mutated returns the text with the copies.
func (f *file) mutated() string {
	text := f.text
	for i, fn := range slices.Backward(functions(f.parsed)) {
		begin := fn.Body.Lbrace
		text = text[:begin] + f.calls[i] + text[begin:]
	}
	return text + f.copies.String()
}

// write writes the files into a temporary directory, and returns an overlay of the shipped ones.
func write(t *testing.T, root string, files map[string]*file) (overlay string) {
	t.Helper()
	dir, replaced := t.TempDir(), map[string]string{}
	put := func(path, text string) {
		replaced[path] = filepath.Join(dir, fmt.Sprint(len(replaced), ".go"))
		must(t, os.WriteFile(replaced[path], []byte(text), 0o600))
	}
	for name, f := range files {
		put(filepath.Join(root, name), f.mutated())
		number := filepath.Join(root, filepath.Dir(name), "mutant_number.go")
		if replaced[number] == "" {
			put(number, fmt.Sprintf(numberFile, f.parsed.Name))
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	must(t, err)
	overlay = filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(overlay, list, 0o600))
	return overlay
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
