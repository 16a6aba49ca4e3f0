// Package quorumvet finds code that ignores its lock. Command quorumvet runs it under go vet. With -vettool, go vet's own
// checks do not run, so it goes beside them; the second of these fails if quorumvet is not installed:
//
//	go vet ./... && go vet -vettool="$(go env GOPATH)/bin/quorumvet" ./...
//
// Code is under a lock in a function with the parameters (context.Context, *quorum.Lock), or (context.Context,
// *leader.Term), that a call such as Locker.Do gets, and between a call such as Locker.Lock and Unlock. Reported are:
//
//   - a call under a lock that gets a context which does not end when the lock is lost: one from around the function,
//     the one given to Lock, context.Background.
//   - a lock that stays held on a path on which the function neither unlocks it nor hands it on, and one whose result is
//     discarded.
//   - a SELECT in a transaction before its stamp by package fence.
//
// It would rather miss a bug than report code that is right. It does not report:
//
//   - a context that may be the lock's: from a function, an element, or a field of what is assigned under the lock, or of what
//     a call gets beside a context; and one made before a goroutine, context.AfterFunc or a method Go that gets the lock or
//     its context, and may cancel it.
//   - a call that outlives the lock or cleans up (go, defer, AfterFunc, Close, Rollback, Shutdown), logs, measures or only
//     reads a value of the context, or gets the lock or its context, too; the lock's own methods.
//   - a discarded result of a method that begins with Try, whose error is asked by errors.Is.
//   - a lock on a path after its error was wrapped, kept in a variable or asked by another function than errors.Is and
//     errors.As, and after a flag was set.
//   - what follows once Valid or Err of the lock says that it is lost, and in a function that Do gets, once a context's Err,
//     Done or Cause says that it ended.
//   - what a function literal does that goes into a field, a slice or a variable of before: it may run later.
//   - a lock that goes into a variable, a field, a channel, a closure that unlocks, or a call: who gets it unlocks it.
//   - a SELECT that locks its rows, and one in a block that ends before the stamp.
//
// Of tests it reads only example*_test.go: others lock and lose in many ways. A comment //quorumvet:ok with a reason, in the
// line or the line before, ends a report.
package quorumvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Types and functions, by their full names.
const (
	root = `github\.com/quorumlock/quorumlock/`
	lock = `\*` + root + `(quorum\.Lock|leader\.Term)`
)

var (
	isLock    = regexp.MustCompile(`^` + lock + `$`)
	acquired  = regexp.MustCompile(`^\((\w+ )?` + lock + `, (\w+ )?error\)`)
	acquiring = regexp.MustCompile(`\.((Try)?R?Lock|(Try)?Acquire|TakeOver|Campaign)$`)
)

// Analyzer makes the reports: an *analysis.Analyzer of golang.org/x/tools/go/analysis.
var Analyzer = &analysis.Analyzer{
	Name:     "quorumvet",
	Doc:      "find code that ignores its quorumlock lock",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{Pass: pass, quiet: map[[2]any]bool{}, named: map[types.Object]*ast.FuncLit{}, reads: map[types.Object]read{}}
	for _, file := range pass.Files {
		c.excuse(file)
	}
	all := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	for f := range inspector.All[*ast.FuncDecl](all) {
		if f.Body != nil {
			c.named[c.TypesInfo.Defs[f.Name]] = &ast.FuncLit{Type: f.Type, Body: f.Body}
			c.checkLocks(f.Body)
		}
	}
	for at := range all.Root().Preorder((*ast.FuncLit)(nil), (*ast.CallExpr)(nil)) {
		switch n := at.Node().(type) {
		case *ast.FuncLit:
			c.checkLocks(n.Body)
		case *ast.CallExpr:
			c.checkReads(at, n)
			c.checkFunctions(n)
		}
	}
	return nil, nil
}

type checker struct {
	*analysis.Pass
	quiet map[[2]any]bool // files and lines that are excused, or have a report: code may be under two locks
	named map[types.Object]*ast.FuncLit
	reads map[types.Object]read // by transaction
}

func (c *checker) line(at token.Pos) int { return c.Fset.Position(at).Line }

func (c *checker) report(at ast.Node, format string, args ...any) {
	p := c.Fset.Position(at.Pos())
	isTest := strings.HasSuffix(p.Filename, "_test.go") && !strings.HasPrefix(filepath.Base(p.Filename), "example")
	if in := [2]any{p.Filename, p.Line}; !c.quiet[in] && !isTest {
		c.quiet[in] = true
		c.ReportRangef(at, "quorumvet: "+format, args...)
	}
}

// excuse notes the lines that a comment excuses.
func (c *checker) excuse(file *ast.File) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			reason, ok := strings.CutPrefix(comment.Text+" ", "//quorumvet:ok ")
			if p := c.Fset.Position(comment.Pos()); ok && strings.TrimSpace(reason) == "" {
				c.report(comment, "quorumvet:ok has no reason: say why this code is right")
			} else if ok {
				c.quiet[[2]any{p.Filename, p.Line}], c.quiet[[2]any{p.Filename, p.Line + 1}] = true, true
			}
		}
	}
}

func (c *checker) typeOf(e ast.Expr) string { return types.TypeString(c.TypesInfo.TypeOf(e), nil) }

func (c *checker) isContext(e ast.Expr) bool { return c.typeOf(e) == "context.Context" }

// acquires reports whether a call returns a lock and an error.
func (c *checker) acquires(e ast.Expr) bool {
	return acquiring.MatchString(c.name(e)) && acquired.MatchString(c.typeOf(e))
}

// name returns the full name of the function that e calls, or "".
func (c *checker) name(e ast.Expr) string {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		if f, ok := typeutil.Callee(c.TypesInfo, call).(*types.Func); ok {
			return f.FullName()
		}
	}
	return ""
}

// base returns the variable that an expression begins with: r in r.Context().
func (c *checker) base(e ast.Expr) types.Object {
	for n := range ast.Preorder(e) {
		if id, ok := n.(*ast.Ident); ok {
			return c.TypesInfo.ObjectOf(id)
		}
	}
	return nil
}
