package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTextIsKept(t *testing.T) {
	packages, err := public("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		p.path = strings.TrimPrefix(p.path, "../../")
	}
	kept, err := os.ReadFile("../../docs/api.txt")
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(kept), "\n"), strings.Split(text(packages), "\n")
	for i := 0; i < max(len(was), len(is)); i++ {
		if i >= len(was) || i >= len(is) || was[i] != is[i] {
			t.Fatalf("docs/api.txt differs from the packages from line %d on. If the change is meant, run make api, "+
				"and tell users of it in CHANGELOG.md.\nkept: %q\nis:   %q", i+1, at(was, i), at(is, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// What a program can name refers to no package that it cannot import.
func TestNoInternalTypeIsExported(t *testing.T) {
	packages, err := public("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 10 {
		t.Errorf("only %d packages: does the test find them?", len(packages))
	}
	for _, p := range packages {
		for _, internal := range p.internals {
			for _, decl := range p.decls {
				if regexp.MustCompile(`\b` + internal + `\.`).MatchString(decl) {
					t.Errorf("%s exports a type of package %s: %s", p.path, internal, decl)
				}
			}
		}
	}
}

func TestPackageIsCounted(t *testing.T) {
	dir := t.TempDir()
	const code = `package p

const A, b = 1, 2

var C int

type T struct {
	F int
	g int
}

func (t *T) M()    {}
func (t *T) m()    {}
func (t hidden) N() {}

type hidden int

func New() *T { return nil }
func unseen() {}
`
	if err := os.WriteFile(dir+"/p.go", []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p.names != 4 || p.methods != 1 { // A, C, T, New; T.M
		t.Errorf("%d names, %d methods", p.names, p.methods)
	}
	for _, decl := range p.decls {
		if strings.Contains(decl, "g int") || strings.Contains(decl, "return") {
			t.Errorf("shown: %s", decl)
		}
	}
}
