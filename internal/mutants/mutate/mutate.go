// Package mutate runs a package's TestMutants on mutants: the shipped code with an edit that leaves out
// one rule. All mutants of a package are compiled into one test binary. Alongside each function that an edit
// changes stands an edited copy, and the function calls the copy of the mutant that the process runs.
//
// To add a mutant, add it to the package's list. TestMutants must find a trace with it, and the package's other
// searches none without it. Then TestMutants with -model.table writes it into docs/reports/mutants.md, if that has a
// table of the package.
package mutate

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/mutants/overlay"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Mutant leaves out one rule. No other mutant of its package leaves out the same.
type Mutant[S any] struct {
	Rule     string
	Edits    []Edit // each edits what those before it left
	Setup    S      // in which the search finds a trace
	Harmless string // why the rule stays although it finds none
}

// Edit replaces a text by another, wherever a file has it. It changes nothing but bodies of functions.
type Edit struct {
	File string // its path from the module's root
	Text string // may begin or end outside a body
	Now  string
}

var rule = flag.String("model.mutant", "", "search the setup of this mutant; TestMutants calls itself so")

// IsMutant reports whether this process runs a mutant.
func IsMutant() bool { return *rule != "" }

// violated is what a search prints that has found a trace.
var violated = regexp.MustCompile(`violated after (\d+) steps(?:: ([^(\n]*[^( \n]))?`)

// Run is TestMutants: it compiles the mutants, and each searches its setup, in which it must find a trace. Without the
// edit [Setups] finds none there. more is declarations that edits need, by the paths of the files that they are
// appended to, or that they make. The table, if there is one, gets what was found. The stepped files use package steps' mutexes.
func Run[S any](t *testing.T, mutants []Mutant[S], more map[string]string, table *Table, search func(S), stepped ...string) {
	if *rule != "" {
		for _, m := range mutants {
			if m.Rule == *rule {
				search(m.Setup)
			}
		}
		return
	}
	binary := build(t, mutants, more, stepped)
	var rows []string
	for i, m := range mutants {
		t.Run(m.Rule, func(t *testing.T) {
			// The binary has no timeout of its own, and may outlive this process.
			cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.timeout=10m", "-test.run", "TestMutants", "-model.mutant", m.Rule)
			cmd.Env = append(overlay.Environ(i+1), oneThread)
			output, err := cmd.CombinedOutput()
			out, trace := string(output), ""
			testkit.Require(t, err == nil, "%v\n%s", err, out)
			found := violated.FindStringSubmatch(out)
			switch {
			case m.Harmless == "" && found == nil:
				t.Errorf("no trace\n%s", out)
			case m.Harmless != "" && found != nil:
				t.Errorf("it is not harmless\n%s", out)
			case found != nil:
				t.Logf("%s", out)
				trace = found[1] + ": " + found[2]
			}
			rows = append(rows, m.row(trace))
		})
	}
	if table != nil {
		table.write(t, rows, len(mutants))
	}
}

// Setups runs a test in the setups of the mutants, without an edit. Mutants share setups.
func Setups[S any](t *testing.T, mutants []Mutant[S], test func(*testing.T, S)) {
	run := map[string]bool{}
	for _, m := range mutants {
		if text := fmt.Sprintf("%+v", m.Setup); !run[text] {
			run[text] = true
			t.Run(m.Rule, func(t *testing.T) { test(t, m.Setup) })
		}
	}
}

// Stepped compiles the tests of the caller's package, with nothing left out, so that the stepped files use package steps'
// mutexes, and with more declarations. It returns what runs one of them in a process of its own. The mutants are compiled,
// too: [Run] finds that in go's cache.
func Stepped[S any](t *testing.T, mutants []Mutant[S], stepped []string, more map[string]string) (run func(t *testing.T, test string, args ...string)) {
	t.Helper()
	binary := build(t, mutants, more, stepped)
	return func(t *testing.T, test string, args ...string) {
		t.Helper()
		args = append([]string{"-test.v", "-test.timeout", flag.Lookup("test.timeout").Value.String(), "-test.run", test}, args...)
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(os.Environ(), oneThread)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		testkit.Must(t, cmd.Run())
	}
}

// oneThread is for a process in which one goroutine runs at a time: each step that wakes another thread takes twice as long.
const oneThread = "GOMAXPROCS=1"

// build compiles the tests of the caller's package with the mutants, which are numbered from 1, into a binary.
func build[S any](t *testing.T, mutants []Mutant[S], more map[string]string, stepped []string) (binary string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	testkit.Must(t, err)
	files := map[string]*file{}
	for _, name := range stepped {
		files[name], err = read(filepath.Join(root, name), more[name])
		testkit.Must(t, err)
		testkit.Must(t, files[name].step())
	}
	for name, text := range more {
		if files[name] == nil {
			files[name], err = read(filepath.Join(root, name), text)
			testkit.Must(t, err)
		}
	}
	testkit.Must(t, edit(files, root, mutants, more))
	binary = filepath.Join(t.TempDir(), "mutants.test")
	edited := overlay.New(t.TempDir())
	for name, f := range files {
		testkit.Must(t, edited.Edit(filepath.Join(root, name), f.parsed.Name.Name, f.mutated()))
	}
	testkit.Must(t, edited.Compile(t.Context(), ".", ".", binary))
	return binary
}

// edit adds the files that the mutants edit, with the copies of all mutants.
func edit[S any](files map[string]*file, root string, mutants []Mutant[S], more map[string]string) error {
	seen := map[string]bool{}
	for i, m := range mutants {
		if seen[m.Rule] {
			return fmt.Errorf("two mutants leave out the rule %q", m.Rule)
		}
		seen[m.Rule] = true
		edited := map[string]string{}
		for _, e := range m.Edits {
			if files[e.File] == nil {
				f, err := read(filepath.Join(root, e.File), more[e.File])
				if err != nil {
					return err
				}
				files[e.File] = f
			}
			text, again := edited[e.File]
			if !again {
				text = files[e.File].text
			}
			if !strings.Contains(text, e.Text) {
				return fmt.Errorf("%s: the mutant without the rule %q: the file has no %q", e.File, m.Rule, e.Text)
			}
			edited[e.File] = strings.ReplaceAll(text, e.Text, e.Now)
			if slices.Equal(words(text), words(edited[e.File])) {
				return fmt.Errorf("%s: the mutant without the rule %q: the same code with %q", e.File, m.Rule, e.Now)
			}
		}
		for name, text := range edited {
			if err := files[name].add(i+1, m.Rule, text); err != nil {
				return fmt.Errorf("%s: the mutant without the rule %q: %w", name, m.Rule, err)
			}
		}
	}
	return nil
}

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
		default:
			all = append(all, kind.String()+word)
		}
	}
}

// file is a shipped file with the copies of its functions.
type file struct {
	path   string
	text   string
	parsed *ast.File
	calls  map[int]string // by function: what it begins with
	copies bytes.Buffer
}

func read(path, more string) (*file, error) {
	source, err := os.ReadFile(path)
	if err != nil && (more == "" || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	f := &file{path: path, text: string(source) + more, calls: map[int]string{}}
	f.parsed, err = parse(f.text)
	return f, err
}

// step makes steps of the sections of the file's mutexes.
func (f *file) step() (err error) {
	const sync, steps = `"sync"`, `"github.com/quorumlock/quorumlock/internal/steps"`
	if !strings.Contains(f.text, sync) || !strings.Contains(f.text, "sync.Mutex") {
		return fmt.Errorf("%s has no sync.Mutex", f.path)
	}
	f.text = strings.Replace(strings.ReplaceAll(f.text, "sync.Mutex", "steps.Mutex"), sync, sync+"; "+steps, 1) + "\nvar _ sync.Once\n"
	f.parsed, err = parse(f.text)
	return err
}

// parse parses a file. A position in it is an offset in the text, plus 1.
func parse(text string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
}

// add adds the copies of a mutant, whose file has that text. The compiler's errors name the file, the rule and the
// line in that text.
func (f *file) add(mutant int, rule, text string) error {
	parsed, err := parse(text)
	if err != nil {
		return err
	}
	before, after := functions(f.parsed), functions(parsed)
	if len(before) != len(after) || outside(f.text, before) != outside(text, after) {
		return errors.New("it changes more than bodies of functions")
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
		name, line := fn.Name.End()-fn.Pos(), 1+strings.Count(text[:fn.Pos()-1], "\n")
		fmt.Fprintf(&f.copies, "\n//line %s without the rule %q:%d\n%sOfMutant%d%s\n", f.path, rule, line, copied[:name], mutant, copied[name:])
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

// outside returns the text without the functions' bodies.
func outside(text string, all []*ast.FuncDecl) string {
	for _, fn := range slices.Backward(all) {
		text = text[:fn.Body.Pos()-1] + text[fn.Body.End()-1:]
	}
	return text
}

// callOf returns the statements with which a function does what another of the same parameters does.
func callOf(fn *ast.FuncDecl, other string) (string, error) {
	args, err := namesOf(fn.Type.Params)
	if err != nil {
		return "", fmt.Errorf("a parameter of %s %w", fn.Name, err)
	}
	call := fmt.Sprintf("%s(%s)", other, strings.Join(args, ", "))
	if fn.Recv != nil {
		receiver, err := namesOf(fn.Recv)
		if err != nil {
			return "", fmt.Errorf("the receiver of %s %w", fn.Name, err)
		}
		call = receiver[0] + "." + call
	}
	if fn.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// namesOf returns parameters as a call passes them on.
func namesOf(params *ast.FieldList) (names []string, err error) {
	for _, field := range params.List {
		if len(field.Names) == 0 {
			return nil, errNoName
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				return nil, errNoName
			}
			names = append(names, name.Name)
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				names[len(names)-1] += "..."
			}
		}
	}
	return names, nil
}

var errNoName = errors.New("has no name, so no copy can be called")

// mutated returns the text with the copies. The compiler's errors have the shipped file's lines.
func (f *file) mutated() string {
	text := f.text
	for i, fn := range slices.Backward(functions(f.parsed)) {
		begin := fn.Body.Lbrace
		text = text[:begin] + f.calls[i] + text[begin:]
	}
	return fmt.Sprintf("//line %s:1\n", f.path) + text + f.copies.String()
}
