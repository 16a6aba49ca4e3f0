//go:build unix

package main

import (
	"flag"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func edits(mutants []mutant) (all []string) {
	for _, m := range mutants {
		all = append(all, m.edit)
	}
	return all
}

func TestMutantsOfGo(t *testing.T) {
	text, mutants, err := instrument("a.go", `package a

func (l *lock) end(at int) bool {
	if l.ended {
		return false
	}
	switch l.kind() {
	case read:
		l.at = at
	default:
	}
	return l.a && l.b || l.c
}
`, 7)
	testkit.Must(t, err)
	want := []string{"never: if l.ended", "always: if l.ended", "without case read", "without l.at = at", "without l.a && l.b in l.a && l.b || l.c",
		"without l.c in l.a && l.b || l.c", "without l.a in l.a && l.b", "without l.b in l.a && l.b"}
	got := edits(mutants)
	testkit.Check(t, slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))), "%q", got)
	testkit.Check(t, strings.HasPrefix(mutants[0].String(), "a.go lock.end: "), "%s", mutants[0])
	testkit.Check(t, strings.Contains(text, "isMutant(8)") && strings.Contains(text, "isMutant(15)") &&
		!strings.Contains(text, "isMutant(16)"), "%s", text)
	_, err = parser.ParseFile(token.NewFileSet(), "", text, 0)
	testkit.Check(t, err == nil, "%v\n%s", err, text)
}

func TestMutantsOfLua(t *testing.T) {
	mutants := mutantsOfLua(testkit.Real(t, 1).Masters[0], "a.lua", `-- if this then that
local a = call('GET', KEYS[1]) or f(b and 'x or y', c)
if a and b or not (c or d) then -- why
  call('SET', KEYS[1], a)
end
`)
	want := []string{
		"without call('GET', KEYS[1]) in call('GET', KEYS[1]) or f(b and 'x or y', c)",
		"without f(b and 'x or y', c) in call('GET', KEYS[1]) or f(b and 'x or y', c)",
		"without b in b and 'x or y'", "without 'x or y' in b and 'x or y'",
		"never: if a and b or not (c or d)", "always: if a and b or not (c or d)",
		"without a in a and b", "without b in a and b",
		"without a and b in a and b or not (c or d)", "without not (c or d) in a and b or not (c or d)",
		"without c in c or d", "without d in c or d",
		"without call('SET', KEYS[1], a)",
	}
	testkit.Equal(t, strings.Join(edits(mutants), "\n"), strings.Join(want, "\n"), "the edits")
	testkit.Check(t, strings.Contains(mutants[6].lua, "\nif b or not (c or d) then\n"), "%s", mutants[6].lua)
}

func TestVerdicts(t *testing.T) {
	for binary, want := range map[string]string{"true": unnoticed, "false": noticed} {
		one := &test{binary: binary, reaches: map[int]bool{1: true}, noticed: map[string]int{}}
		for number, want := range map[int]string{1: want, 2: unnoticed} {
			testkit.Equal(t, testkit.Got(try(t.Context(), t.TempDir(), mutant{}, number, []*test{one}))(t), want, binary)
		}
	}
}

// Each entry of harmless.txt still is a mutant, and says why nobody need notice it.
func TestHarmlessMutants(t *testing.T) {
	testkit.Real(t, 1) // or the test is skipped
	t.Chdir("../..")
	*list = true
	defer func() { *list = false }()
	testkit.Must(t, flag.Set("only", "^$"))
	testkit.Is(t, run(t.Context()), nil, "run")
	lines := strings.Split(strings.TrimSpace(harmlessText), "\n")
	for i, line := range lines {
		if line[0] == ' ' {
			continue
		}
		testkit.Check(t, i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  "), "harmless.txt has no reason for %s", line)
		file := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == ':' })[0]
		testkit.Check(t, isIn(file), "harmless.txt: no group has %s", file)
	}
}

// Each file that decides is left out, branch by branch.
func TestGroupsHaveEachFile(t *testing.T) {
	exceptions := map[string]string{
		"internal/lease/command.go": "values",
		"internal/lease/doc.go":     "a comment",
	}
	for _, pkg := range []string{"internal/engine", "internal/queue", "internal/schedule", "internal/slots", "internal/waiting",
		"internal/lease", "semaphore"} {
		files := testkit.Got(filepath.Glob("../../quorum/" + pkg + "/*.go"))(t)
		testkit.Check(t, len(files) != 0, "no file of %s", pkg)
		for _, file := range files {
			name := pkg + "/" + filepath.Base(file)
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			isException := exceptions[name] != ""
			delete(exceptions, name)
			testkit.Check(t, isIn("quorum/"+name) != isException, "%s is in a group: %v, want %v", name, isException, !isException)
		}
	}
	for name := range exceptions {
		t.Errorf("no file is called %s", name)
	}
}

func isIn(file string) bool {
	return slices.ContainsFunc(groups, func(g group) bool {
		return slices.ContainsFunc(g.files, func(p string) bool { ok, _ := filepath.Match(p, file); return ok })
	})
}
