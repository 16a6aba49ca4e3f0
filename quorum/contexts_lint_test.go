package quorum

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// callsContext has the functions and methods that call a context of the caller's, in the calling goroutine.
var callsContext = map[string]bool{
	"Done": true, "Err": true, "Value": true, "Deadline": true, "Cause": true, "cancel": true,
	"contextError": true, "endedError": true, "innermost": true, "MakeContext": true, "EndContext": true, "endContexts": true, "awaitDecided": true,
	"WithCancel": true, "WithCancelCause": true, "WithTimeout": true, "WithDeadline": true, "AfterFunc": true,
}

// No function calls a context while it holds a mutex: from a call of Lock to the call of Unlock, or its end;
// and in a function whose name says that its caller holds one. TestContextsAreCalledWithNoMutexLocked finds
// what is called further down.
func TestNoContextIsCalledBetweenLockAndUnlock(t *testing.T) {
	var files []string
	for _, dir := range []string{".", "internal/engine", "internal/queue", "../leader"} {
		found, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		files = append(files, found...)
	}
	functions := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch f := n.(type) {
			case *ast.FuncDecl:
				if f.Body != nil {
					functions++
					lintBody(t, set, f.Body, strings.HasSuffix(f.Name.Name, "Locked"))
				}
			case *ast.FuncLit:
				lintBody(t, set, f.Body, false)
			}
			return true
		})
	}
	if functions < 300 {
		t.Errorf("%d functions were read: the test shows nothing", functions)
	}
}

// lintBody reads a function's calls in the order of the text, without functions inside it.
func lintBody(t *testing.T, set *token.FileSet, body *ast.BlockStmt, locked bool) {
	deferred := map[ast.Node]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.DeferStmt:
			deferred[s.Call] = true
		case *ast.CallExpr:
			of, name := "", ""
			switch f := s.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
				if x, ok := f.X.(*ast.Ident); ok {
					of = x.Name
				} else if x, ok := f.X.(*ast.SelectorExpr); ok {
					of = x.Sel.Name
				}
			}
			switch {
			case strings.HasSuffix(strings.ToLower(of), "mu") && name == "Lock":
				locked = true
			case strings.HasSuffix(strings.ToLower(of), "mu") && name == "Unlock":
				locked = locked && deferred[s]
			case locked && callsContext[name] && of != "lease" && !strings.EqualFold(of, "clock") && (of != "" || name != "cancel"):
				t.Errorf("%v: %s is called with a mutex locked", set.Position(s.Pos()), name)
			}
		}
		return true
	})
}
