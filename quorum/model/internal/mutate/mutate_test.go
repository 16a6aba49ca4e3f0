package mutate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shipped is a program whose functions have the forms that an edit may meet. It prints a letter for each.
const shipped = `package main

import "fmt"

type box struct{ letters []string }

func (b *box) put(letter string) { b.letters = append(b.letters, letter) }

func (b box) all(more ...string) []string { // a value
	return append(b.letters, more...)
}

func pair(x, y string) (first, second string) {
	defer func() { second += y }()
	first, second = x, "c"
	return
}

func first[T any](all []T) T { return all[0] }

func down(n int) string {
	if n == 0 {
		return "d"
	}
	return down(n - 1)
}

func quiet() () { atBegin = "e" + tail }

var (
	atBegin = begin()
	tail    = ""
)

func begin() string { return "f" }

func (*box) unnamed()       {}
func (_ *box) blank()       {}
func untyped(int, string)   {}
func underscore(_, b int)   {}

func main() {
	b := &box{}
	b.put("a")
	one, two := pair("b", "")
	do := func() string { return "g" }
	fmt.Print(b.all(one), two, first([]string{"h", "H"}), down(2), atBegin, do())
	quiet()
	fmt.Println(atBegin)
}
`

func TestAProcessRunsItsMutant(t *testing.T) {
	const usual = "[a b]chdfge"
	tests := []struct {
		mutant Mutant
		want   string
	}{
		{Mutant{"no results", edits("append(b.letters, letter)", `append(b.letters, "A")`)}, "[A b]chdfge"},
		{Mutant{"many arguments", edits("append(b.letters, more...)", `append(more, "B")`)}, "[b B]chdfge"},
		{Mutant{"many results", edits("second += y", `second += "C"`)}, "[a b]cChdfge"},
		{Mutant{"any type", edits("return all[0]", "return all[1]")}, "[a b]cHdfge"},
		{Mutant{"recursion", edits("down(n - 1)", `"D" + down(n - 1)`)}, "[a b]chDDdfge"},
		{Mutant{"empty results", edits(`"e" + tail`, `"E" + tail`)}, "[a b]chdfgE"},
		{Mutant{"before main", edits(`{ return "f" }`, `{ return "F" }`)}, "[a b]chdFge"},
		{Mutant{"a closure", edits(`{ return "g" }`, `{ return "G" }`)}, "[a b]chdfGe"},
		{Mutant{"two functions", edits(`"d"`, `"X"`, `{ return "f" }`, `{ return "Y" }`)}, "[a b]chXYge"},
		{Mutant{"one function twice", edits(`"d"`, `"X"`, "down(n - 1)", `"Y" + down(n-1)`)}, "[a b]chYYXfge"},
	}
	var all []Mutant
	for _, test := range tests {
		all = append(all, test.mutant)
	}
	program := compiled(t, all)
	for n, test := range tests {
		if got := run(t, program, n+1); got != test.want {
			t.Errorf("the mutant without the rule %q prints %q, want %q", test.mutant.Rule, got, test.want)
		}
	}
	if got := run(t, program, 0); got != usual {
		t.Errorf("without a mutant the program prints %q, want %q", got, usual)
	}
}

// What cannot be a mutant, or would search the shipped code, is an error that names the rule.
func TestWhatIsNoMutant(t *testing.T) {
	for _, test := range []struct{ text, now, want string }{
		{"no such text", "", "any more"},
		{`"d"`, `"d"`, "the same code"},
		{`"d"`, "\"d\" // more", "the same code"},
		{"// a value", "// another", "the same code"},
		{"return\n}", "return;\n}", "the same code"},
		{"type box struct{", "type box struct{ x int; ", "outside functions"},
		{"tail    = \"\"", "tail    = \"x\"", "outside functions"},
		{"func first[T any](", "func first[T comparable](", "the signature of first"},
		{"func down(n int)", "func down(n int, m ...int)", "the signature of down"},
		{"unnamed()       {}", "unnamed()       { println() }", "of unnamed has no name"},
		{"blank()       {}", "blank()       { println() }", "of blank has no name"},
		{"untyped(int, string)   {}", "untyped(int, string)   { println() }", "of untyped has no name"},
		{"underscore(_, b int)   {}", "underscore(_, b int)   { println() }", "of underscore has no name"},
		{"return down(n - 1)", "return down(n - 1", "missing ','"},
	} {
		_, err := mutate([]Mutant{{"the rule", edits(test.text, test.now)}}, source)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `"the rule"`) {
			t.Errorf("%q for %q: %v, want one with %q", test.now, test.text, err, test.want)
		}
	}
	twice := Mutant{"the rule", edits(`"d"`, `"D"`)}
	if _, err := mutate([]Mutant{twice, twice}, source); err == nil || !strings.Contains(err.Error(), "two mutants") {
		t.Errorf("two of one rule: %v", err)
	}
}

// What the compiler finds in a mutant names the rule: the edited file is gone when the test has ended.
func TestTheCompilerNamesTheRule(t *testing.T) {
	out, err := compile(t, filepath.Join(t.TempDir(), "program"),
		[]Mutant{{"a fine one", edits(`"d"`, `"D"`)}, {"the rule: it's bad", edits(`return "d"`, `unused := "d"`)}})
	if err == nil || !strings.Contains(out, "the rule: it's bad") || strings.Contains(out, "a fine one") {
		t.Errorf("%v\n%s", err, out)
	}
}

func source(string) (string, error) { return shipped, nil }

// edits returns edits of the program: each a text, and what stands in its place.
func edits(texts ...string) (all []Edit) {
	for i := 0; i < len(texts); i += 2 {
		all = append(all, Edit{File: "main.go", Text: texts[i], Now: texts[i+1]})
	}
	return all
}

// compile compiles the program with mutants, and returns what the compiler prints.
func compile(t *testing.T, program string, mutants []Mutant) (string, error) {
	t.Helper()
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module shipped\n\ngo 1.26\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "main.go"), []byte(shipped), 0o600))
	files, err := mutate(mutants, source)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", write(t, root, files), "-o", program, ".")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func compiled(t *testing.T, mutants []Mutant) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program")
	if out, err := compile(t, program, mutants); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// run returns what the program prints as the n-th mutant.
func run(t *testing.T, program string, n int) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", numberEnv, n))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}
