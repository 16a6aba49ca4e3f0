package quorumlock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// An option that is set, checked and kept, but read by nothing else, does nothing.
func TestEachSettingIsRead(t *testing.T) {
	for _, of := range []struct {
		dir, settings string
		notReaders    string // the functions that only set or check
	}{
		{"quorum", "settings", "check differences"},
		{"quorum/internal/engine", "Terms", ""},
		{"quorum/internal/lease", "Terms", ""},
		{"quorum/internal/waiting", "Retry", ""},
		{"node", "options", "newOptions"},
		{"contrib/gocronquorumlock", "settings", ""},
		{"contrib/otelquorumlock", "options", ""},
		{"contrib/promquorumlock", "options", ""},
	} {
		fields, unread := settingsOf(t, of.dir, of.settings, strings.Fields(of.notReaders))
		testkit.Check(t, len(fields) > 0 && len(unread) == 0, "nothing in %s reads %v of %s: the option does nothing", of.dir, unread, of.settings)
	}
}

// settingsOf returns the fields of a struct, and those that no function of its package reads, except these functions and
// options themselves. A field named like loggerSet says that an option was given: only checks read it.
func settingsOf(t *testing.T, dir, of string, notReaders []string) (fields, unread []string) {
	t.Helper()
	paths := testkit.Got(filepath.Glob(dir + "/*.go"))(t)
	places := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := testkit.Got(parser.ParseFile(places, path, nil, parser.SkipObjectResolution))(t)
		files = append(files, file)
	}
	uses := map[*ast.Ident]types.Object{}
	lenient := types.Config{Error: func(error) {}} // nothing is imported
	checked, _ := lenient.Check(dir, places, files, &types.Info{Uses: uses})
	read := map[types.Object]bool{}
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && (f.Recv == nil && strings.HasPrefix(f.Name.Name, "With") || slices.Contains(notReaders, f.Name.Name)) {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, to := range n.Lhs {
						if field, ok := to.(*ast.SelectorExpr); ok {
							delete(uses, field.Sel) // it is set here
						}
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok {
						delete(uses, key)
					}
				case *ast.Ident:
					read[uses[n]] = true
				}
				return true
			})
		}
	}
	for field := range checked.Scope().Lookup(of).Type().Underlying().(*types.Struct).Fields() {
		fields = append(fields, field.Name())
		if !read[field] && !field.Embedded() && !strings.HasSuffix(field.Name(), "Set") {
			unread = append(unread, field.Name())
		}
	}
	return fields, unread
}
