package integration_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"golang.org/x/tools/go/packages"
)

// Two errors are compared only if one of them is a sentinel: of others both may have a type that cannot be compared, and
// the comparison panics.
func TestErrorsAreNotCompared(t *testing.T) {
	t.Parallel()
	modules := testkit.Got(filepath.Glob("../contrib/*"))(t)
	files := 0
	for _, module := range append(modules, "..") {
		found, of := comparisons(t, module)
		for _, at := range found {
			t.Error(at, "compares two errors, which may be of a type that cannot be compared")
		}
		files += of
	}
	testkit.Check(t, files > 200, "only %d files were read", files)
}

// comparisons returns where a module's shipped files compare errors that are no sentinels, and how many files these are: by ==
// or !=, as cases of a switch, as keys of a map, or as type arguments that must be comparable. cmp.Or compares with nil alone,
// and who calls Comparable may compare.
func comparisons(t *testing.T, module string) (found []string, files int) {
	t.Helper()
	config := &packages.Config{Mode: packages.LoadSyntax, Dir: module, Context: t.Context(), Env: append(os.Environ(), "GOWORK=off")}
	if testkit.Race() {
		config.BuildFlags = []string{"-race"} // what they need is compiled so
	}
	all := testkit.Got(packages.Load(config, "./..."))(t)
	for _, p := range all {
		testkit.Check(t, p.Errors == nil, "%s: %v", p.PkgPath, p.Errors)
		files += len(p.Syntax)
		found = append(found, comparisonsIn(p)...)
	}
	return found, files
}

func comparisonsIn(p *packages.Package) (found []string) {
	info := p.TypesInfo
	failure := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	isError := func(of types.Type) bool { return types.IsInterface(of) && types.Implements(of, failure) }
	// may reports whether an expression is an error that is no sentinel.
	may := func(e ast.Expr) bool {
		e = ast.Unparen(e)
		if s, ok := e.(*ast.SelectorExpr); ok {
			e = s.Sel
		}
		if id, ok := e.(*ast.Ident); ok {
			if v, ok := info.Uses[id].(*types.Var); ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
				return false
			}
		}
		of, ok := info.Types[e]
		if !ok {
			of.Type = info.TypeOf(e)
		}
		return of.Type != nil && !of.IsNil() && isError(of.Type)
	}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			bad := false
			switch n := n.(type) {
			case *ast.FuncDecl:
				if asksBefore(n) {
					return false
				}
			case *ast.BinaryExpr:
				bad = (n.Op == token.EQL || n.Op == token.NEQ) && may(n.X) && may(n.Y)
			case *ast.SwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						bad = bad || n.Tag != nil && may(n.Tag) && may(e)
					}
				}
			case *ast.MapType:
				bad = isError(info.TypeOf(n.Key))
			case *ast.Ident:
				instance, ok := info.Instances[n]
				ok = ok && info.Uses[n].Pkg().Path() != "cmp"
				for i := 0; ok && i < instance.TypeArgs.Len(); i++ {
					params := info.Uses[n].Type().(interface{ TypeParams() *types.TypeParamList }).TypeParams()
					bad = bad || params.At(i).Constraint().Underlying().(*types.Interface).IsComparable() && isError(instance.TypeArgs.At(i))
				}
			}
			if bad {
				found = append(found, p.Fset.Position(n.Pos()).String())
			}
			return true
		})
	}
	return found
}

// asksBefore reports whether a function calls Comparable.
func asksBefore(f *ast.FuncDecl) (asks bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		asks = asks || ok && s.Sel.Name == "Comparable"
		return true
	})
	return asks
}

// Each kind of comparison is found.
func TestComparisonsOfErrorsAreFound(t *testing.T) {
	t.Parallel()
	const text = `package p

import ("cmp"; "reflect")

type odd interface { error; Odd() bool }
type sentinel struct{ error }
var known error
func one[K comparable](a, b K) bool { return a == b }
func same(a, b error) bool { return reflect.ValueOf(a).Comparable() && a == b } // fine
func any[K interface{ error }](a, b K) {}
var _ = func(a, b error, c odd, s struct{ err error }) {
	_ = a == nil || a == known || nil != b || known == s.err // fine
	switch a { case known, nil: } // fine
	any(a, b) // fine
	_ = cmp.Or(a, b) // fine
	_ = a == b // bad
	_ = s.err != (b) // bad
	_ = a == c // bad
	switch a { case known, b: } // bad
	_ = one(a, b) // bad
	var _ map[error]int // bad
}
`
	module := t.TempDir()
	must(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte("module p\n\ngo 1.26\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(module, "p.go"), []byte(text), 0o600))
	found, _ := comparisons(t, module)
	for i, line := range strings.Split(text, "\n") {
		is := strings.Contains(strings.Join(found, "\n")+":", fmt.Sprintf("p.go:%d:", i+1))
		testkit.Equal(t, is, strings.HasSuffix(line, "// bad"), line)
	}
}

// usersModules are the modules that a program's graph may gain from importing redlock and fence. A new one is
// every user's to audit: add it only for the library's sake.
var usersModules = []string{
	"github.com/gomodule/redigo",
	"github.com/hashicorp/errwrap",
	"github.com/hashicorp/go-multierror",
	"golang.org/x/sync",
	"golang.org/x/sys",

	// The command reads its line by it; it requires nothing but testify.
	"github.com/urfave/cli/v3",

	// The tests alongside the library use the rest. None of it is compiled into a program.
	"github.com/cockroachdb/datadriven",
	"github.com/davecgh/go-spew",
	"github.com/pmezard/go-difflib",
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"gopkg.in/yaml.v3",
}

func TestModulesOfAUser(t *testing.T) {
	t.Parallel()
	root := testkit.Got(filepath.Abs(".."))(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": `module example.com/user

go 1.26.0

require github.com/quorumlock/quorumlock v0.0.0

replace github.com/quorumlock/quorumlock => "` + filepath.ToSlash(root) + `"
`,
		"go.sum": testkit.Read(t, "../go.sum"),
		"main.go": "package main\n\nimport (\n\t_ \"github.com/quorumlock/quorumlock/fence\"\n" +
			"\t_ \"github.com/quorumlock/quorumlock/redlock\"\n)\n\nfunc main() {}\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-C", dir, "-mod=mod", "-m",
		"-f", "{{if not .Main}}{{.Path}}{{end}}", "all")
	list.Env = append(os.Environ(), "GOWORK=off")
	list.Stderr = os.Stderr
	listed := testkit.Got(list.Output())(t)
	modules := strings.Fields(string(listed))
	testkit.Require(t, slices.Contains(modules, "github.com/quorumlock/quorumlock"), "the list is not a user's: %q", modules)
	for _, module := range modules {
		testkit.Check(t, module == "github.com/quorumlock/quorumlock" || slices.Contains(usersModules, module),
			"a program that imports redlock and fence gets %s into its module graph", module)
	}
}
