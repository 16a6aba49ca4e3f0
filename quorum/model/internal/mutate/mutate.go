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
	"go/scanner"
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
	files, err := mutate(mutants, func(name string) (string, error) {
		source, err := os.ReadFile(filepath.Join(root, name))
		return string(source) + more[name], err
	})
	must(t, err)
	b := &Binary{path: filepath.Join(t.TempDir(), "mutants.test")}
	for _, m := range mutants {
		b.rules = append(b.rules, m.Rule)
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
	number := 1 + slices.Index(b.rules, rule)
	if number == 0 {
		t.Fatalf("the binary has no mutant without the rule %q", rule)
	}
	// If this process ends first, as after its own timeout, the binary ends by itself.
	cmd := exec.CommandContext(t.Context(), b.path, "-test.v", "-test.timeout=10m", "-test.run", "TestMutants",
		"-model.mutant", rule)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", numberEnv, number))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// mutate returns the files that the mutants edit, with the copies of all. The n-th mutant has the number n.
func mutate(mutants []Mutant, source func(file string) (string, error)) (map[string]*file, error) {
	files, rules := map[string]*file{}, map[string]bool{}
	for i, m := range mutants {
		if rules[m.Rule] {
			return nil, fmt.Errorf("two mutants leave out the rule %q", m.Rule)
		}
		rules[m.Rule] = true
		if err := m.addTo(files, i+1, source); err != nil {
			return nil, fmt.Errorf("the mutant without the rule %q: %w", m.Rule, err)
		}
	}
	return files, nil
}

func (m Mutant) addTo(files map[string]*file, number int, source func(file string) (string, error)) (err error) {
	edited := map[string]string{}
	for _, e := range m.Edits {
		if files[e.File] == nil {
			if files[e.File], err = read(e.File, source); err != nil {
				return err
			}
		}
		if edited[e.File] == "" {
			edited[e.File] = files[e.File].text
		}
		before := edited[e.File]
		if !strings.Contains(before, e.Text) {
			return fmt.Errorf("%s has no %q any more", e.File, e.Text)
		}
		edited[e.File] = strings.ReplaceAll(before, e.Text, e.Now)
		if isSameCode(before, edited[e.File]) {
			return fmt.Errorf("%s is the same code with %q", e.File, e.Now)
		}
	}
	for name, text := range edited {
		if err := files[name].add(number, m.Rule, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// isSameCode reports whether two texts differ in spaces and comments at most.
func isSameCode(a, b string) bool { return slices.Equal(words(a), words(b)) }

// words returns a text's tokens without comments.
func words(text string) (all []string) {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(text)), []byte(text), nil, 0)
	for {
		switch _, kind, word := s.Scan(); {
		case kind == token.EOF:
			return all
		case kind == token.SEMICOLON: // the end of a line is one, too
			all = append(all, ";")
		case word != "":
			all = append(all, word)
		default:
			all = append(all, kind.String())
		}
	}
}

// file is a shipped file with the copies of its functions.
type file struct {
	text   string
	parsed *ast.File
	calls  map[int]string // by function: what it begins with
	copies bytes.Buffer
}

func read(name string, source func(file string) (string, error)) (*file, error) {
	text, err := source(name)
	if err != nil {
		return nil, err
	}
	f := &file{text: text, calls: map[int]string{}}
	f.parsed, err = parse(f.text)
	return f, err
}

// parse parses a file. A position in it is an offset in the text, plus 1.
func parse(text string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
}

// add adds the copies of a mutant, whose file has that text.
func (f *file) add(mutant int, rule, text string) error {
	parsed, err := parse(text)
	if err != nil {
		return err
	}
	before, after := functions(f.parsed), functions(parsed)
	if len(before) != len(after) || without(f.text, before) != without(text, after) {
		return fmt.Errorf("it differs outside functions")
	}
	for i, fn := range after {
		old := before[i]
		if text[fn.Pos()-1:fn.End()-1] == f.text[old.Pos()-1:old.End()-1] {
			continue
		}
		if text[fn.Pos()-1:fn.Body.Lbrace] != f.text[old.Pos()-1:old.Body.Lbrace] {
			return fmt.Errorf("it changes the signature of %s", old.Name)
		}
		call, err := callOf(fn, fmt.Sprintf("%sOfMutant%d", fn.Name, mutant))
		if err != nil {
			return err
		}
		f.calls[i] += fmt.Sprintf(" if mutantNumber == %d { %s };", mutant, call)
		// The file will be gone: what the compiler finds has the rule for a place.
		fmt.Fprintf(&f.copies, "\n//line without the rule %q:1\n%sOfMutant%d%s\n", rule,
			text[fn.Pos()-1:fn.Name.End()-1], mutant, text[fn.Name.End()-1:fn.End()-1])
	}
	return nil
}

func functions(f *ast.File) (all []*ast.FuncDecl) {
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
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
		names, err := namesOf(fn, field)
		if err != nil {
			return "", err
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			names[0] += "..."
		}
		args = append(args, names...)
	}
	call := fmt.Sprintf("%s(%s)", other, strings.Join(args, ", "))
	if fn.Recv != nil {
		names, err := namesOf(fn, fn.Recv.List[0])
		if err != nil {
			return "", err
		}
		call = names[0] + "." + call
	}
	if fn.Type.Results.NumFields() == 0 {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// namesOf returns the names of parameters, or of the receiver.
func namesOf(fn *ast.FuncDecl, field *ast.Field) (names []string, err error) {
	for _, name := range field.Names {
		names = append(names, name.Name)
	}
	if len(names) == 0 || slices.Contains(names, "_") {
		return nil, fmt.Errorf("the receiver or a parameter of %s has no name", fn.Name)
	}
	return names, nil
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
