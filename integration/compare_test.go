package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Two errors are compared only if one of them is a sentinel: of others both may have a type that cannot be compared, and
// the comparison panics.
func TestErrorsAreNotCompared(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Glob("../contrib/*")
	must(t, err)
	files := 0
	for _, module := range append(modules, "..") {
		files += lintComparisons(t, module)
	}
	testkit.Check(t, files > 200, "only %d files were read", files)
}

type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// listed returns the packages of a module that match, and what imports them and those that they need.
func listed(t *testing.T, set *token.FileSet, module string, match ...string) (own []listedPackage, deps types.Importer) {
	t.Helper()
	args := append([]string{"list", "-C", module, "-export", "-race=" + isRace(), "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module"}, match...)
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Env = append(os.Environ(), "GOWORK=off")
	list.Stderr = os.Stderr
	all, err := list.Output()
	must(t, err)
	exports := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(all))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			own = append(own, p)
		}
	}
	return own, importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

// isRace says whether the tests are compiled for the race detector, and with them what they need: it is compiled then.
func isRace() string {
	info, _ := debug.ReadBuildInfo()
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value
		}
	}
	return "false"
}

// lintComparisons fails the test for each comparison of errors in a module's shipped files, and returns their number.
func lintComparisons(t *testing.T, module string) (files int) {
	set := token.NewFileSet()
	own, deps := listed(t, set, module, "./...")
	for _, p := range own {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			must(t, err)
			parsed = append(parsed, file)
		}
		files += len(parsed)
		for _, found := range comparisons(t, set, p.ImportPath, parsed, deps) {
			t.Error(found, "compares two errors, which may be of a type that cannot be compared")
		}
	}
	return files
}

// comparisons returns where a package compares errors that are no sentinels: by == or !=, as cases of a switch, as keys
// of a map, or as type arguments that must be comparable. cmp.Or compares with nil alone, and who calls Comparable may
// compare.
func comparisons(t *testing.T, set *token.FileSet, path string, files []*ast.File, deps types.Importer) (found []string) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Instances: map[*ast.Ident]types.Instance{}}
	_, err := (&types.Config{Importer: deps}).Check(path, set, files, info)
	must(t, err)
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
	var cmpOr types.Object
	if c, err := deps.Import("cmp"); err == nil {
		cmpOr = c.Scope().Lookup("Or")
	}
	for _, file := range files {
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
				ok = ok && info.Uses[n] != cmpOr
				for i := 0; ok && i < instance.TypeArgs.Len(); i++ {
					params := info.Uses[n].Type().(interface{ TypeParams() *types.TypeParamList }).TypeParams()
					bad = bad || params.At(i).Constraint().Underlying().(*types.Interface).IsComparable() && isError(instance.TypeArgs.At(i))
				}
			}
			if bad {
				found = append(found, set.Position(n.Pos()).String())
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
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", text, parser.SkipObjectResolution)
	must(t, err)
	_, deps := listed(t, set, "..", "cmp", "reflect")
	found := comparisons(t, set, "p", []*ast.File{file}, deps)
	for i, line := range strings.Split(text, "\n") {
		is := strings.Contains(strings.Join(found, "\n")+":", fmt.Sprintf("p.go:%d:", i+1))
		testkit.Equal(t, is, strings.HasSuffix(line, "// bad"), line)
	}
}
