// Package quorumvet finds code that ignores its lock. Command quorumvet runs it under go vet.
//
// Code is under a lock in a function with the parameters (context.Context, *quorum.Lock), or (context.Context,
// *leader.Term), that a call such as Locker.Do gets, and between a call such as Locker.Lock and Unlock. Reported are:
//
//   - a call under a lock that gets a context which does not end when the lock is lost: one from around the function,
//     the one given to Lock, context.Background. The lock's own methods may have it, and so may Close, Rollback,
//     Shutdown, what logs, measures or reads the context's values, and what follows go or defer.
//   - a lock that stays held on a path on which the function neither unlocks it nor hands it on.
//   - a SELECT in a transaction before its stamp by package fence.
//
// Of tests it reads only example*_test.go: others lock and lose in many ways. -quorumvet.tests reads all. A comment
// //quorumvet:ok with a reason, in the line or the line before, ends a report.
package quorumvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// Types and functions, by their full names.
const (
	root = `github\.com/quorumlock/quorumlock/`
	lock = `\*` + root + `(quorum\.Lock|leader\.Term)`
	// They may have any context. The last ones read its values.
	free = `^\(` + lock + `\)|^context\.|^\(?\*?(log/slog\.|go\.opentelemetry\.io/)|\.(Close|Rollback|Shutdown|Ctx)$|From\w*Context$`
)

var (
	underLock = regexp.MustCompile(`^func\((\w+ )?context\.Context, (\w+ )?` + lock + `\b`)
	locks     = regexp.MustCompile(`^\((\w+ )?` + lock + `, (\w+ )?error\)`)
	acquiring = regexp.MustCompile(`\.((Try)?R?Lock|(Try)?Acquire|TakeOver|Campaign)$`)
	inDo      = regexp.MustCompile(free)
	inLock    = regexp.MustCompile(free + `|^\(?\*?` + root + `(quorum(/\w+|test)?|leader)\.|` + acquiring.String())
	stamping  = regexp.MustCompile(`^\(?` + root + `fence\.(Column\)\.)?Stamp`)
	reading   = regexp.MustCompile(`(?is)^\s*SELECT\b.*\bFROM\b`)
	locking   = regexp.MustCompile(`(?i)\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE)\b`) // nobody writes the row before the transaction ends
)

// Analyzer makes the reports: an *analysis.Analyzer of golang.org/x/tools/go/analysis.
var Analyzer = newAnalyzer()

func newAnalyzer() *analysis.Analyzer {
	a := &analysis.Analyzer{Name: "quorumvet", Doc: "find code that ignores its quorumlock lock",
		Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer}}
	tests := a.Flags.Bool("tests", false, "read all tests, not only examples")
	a.Run = func(pass *analysis.Pass) (any, error) {
		(&checker{pass, *tests, map[line]bool{}}).run()
		return nil, nil
	}
	return a
}

type checker struct {
	*analysis.Pass
	tests bool
	quiet map[line]bool // lines that are excused, or have a report: code may be under two locks
}

type line struct {
	file   string
	number int
}

func (c *checker) run() {
	for _, file := range c.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				reason, ok := strings.CutPrefix(comment.Text, "//quorumvet:ok")
				if ok && strings.TrimSpace(reason) == "" {
					c.Reportf(comment.Pos(), "quorumvet:ok has no reason: say why this code is right")
				} else if at := c.Fset.Position(comment.Pos()); ok && reason[0] == ' ' {
					c.quiet[line{at.Filename, at.Line}], c.quiet[line{at.Filename, at.Line + 1}] = true, true
				}
			}
		}
	}
	graphs, all := c.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs), c.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	named := map[types.Object]*ast.FuncDecl{}
	for f := range inspector.All[*ast.FuncDecl](all) {
		if g := graphs.FuncDecl(f); g != nil { // it has a body
			named[c.TypesInfo.Defs[f.Name]] = f
			c.checkLocks(g, f.Body)
		}
	}
	for f := range inspector.All[*ast.FuncLit](all) {
		c.checkLocks(graphs.FuncLit(f), f.Body)
	}
	stamped := map[types.Object]bool{}
	for block := range inspector.All[*ast.BlockStmt](all) {
		c.checkReads(block.List, stamped)
	}
	for call := range inspector.All[*ast.CallExpr](all) {
		for _, arg := range call.Args {
			if !underLock.MatchString(c.typeOf(arg)) {
				continue
			}
			switch arg := ast.Unparen(arg).(type) {
			case *ast.FuncLit:
				c.checkFunction(arg.Type, arg.Body)
			case *ast.Ident, *ast.SelectorExpr: // a function, or a method of a variable
				if f := named[typeutil.Callee(c.TypesInfo, &ast.CallExpr{Fun: arg})]; f != nil {
					c.checkFunction(f.Type, f.Body)
				}
			}
		}
	}
}

func (c *checker) report(at ast.Node, format string, args ...any) {
	p := c.Fset.Position(at.Pos())
	name, in := filepath.Base(p.Filename), line{p.Filename, p.Line}
	if !c.quiet[in] && (c.tests || !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "example")) {
		c.quiet[in] = true
		c.ReportRangef(at, format, args...)
	}
}

func (c *checker) typeOf(e ast.Expr) string { return types.TypeString(c.TypesInfo.TypeOf(e), nil) }

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
func (c *checker) base(e ast.Node) (v types.Object) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && v == nil {
			v = c.TypesInfo.ObjectOf(id)
		}
		return v == nil
	})
	return v
}

func (c *checker) is(e ast.Node, v types.Object) bool {
	id, ok := e.(*ast.Ident)
	return ok && v != nil && c.TypesInfo.ObjectOf(id) == v
}

// others returns a function that reports whether a context does not end with a lock. outside says so of a variable, and of
// what begins with one; body defines further ones after from.
func (c *checker) others(body ast.Node, from token.Pos, outside func(ast.Expr, types.Object) bool) (other func(ast.Expr) bool) {
	derived, assigned := map[types.Object]ast.Expr{}, map[types.Object]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if as, ok := n.(*ast.AssignStmt); ok && as.Pos() > from {
			for i, l := range as.Lhs {
				if v := c.base(l); v != nil && v.Pos() == l.Pos() {
					derived[v] = as.Rhs[min(i, len(as.Rhs)-1)]
				} else {
					assigned[v] = true
				}
			}
		}
		return true
	})
	other = func(e ast.Expr) bool {
		v, name := c.base(e), c.name(e)
		call, _ := ast.Unparen(e).(*ast.CallExpr)
		switch {
		case name == "context.Background", name == "context.TODO":
			return true
		case strings.HasPrefix(name, "context.With") && name != "context.WithoutCancel":
			return other(call.Args[0])
		case call != nil && !strings.HasSuffix(name, ".Context"), v == nil, assigned[v]:
			return false
		case derived[v] != nil:
			return other(derived[v])
		}
		return outside(e, v)
	}
	return other
}

func (c *checker) checkFunction(typ *ast.FuncType, body *ast.BlockStmt) {
	own := "the lock's context"
	if names := typ.Params.List[0].Names; len(names) > 0 && names[0].Name != "_" {
		own = names[0].Name
	}
	c.checkContexts(body, own, inDo, c.others(body, body.Pos(), func(_ ast.Expr, v types.Object) bool {
		return v.Pos() < typ.Params.Pos() || v.Pos() > body.End()
	}))
}

func (c *checker) checkContexts(in ast.Node, own string, free *regexp.Regexp, other func(ast.Expr) bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt: // what outlives the lock, and what cleans up
			return false
		case *ast.CallExpr:
			for _, arg := range n.Args {
				if c.typeOf(arg) == "context.Context" && !free.MatchString(c.name(n)) && other(arg) {
					c.report(arg, "%s does not end when the lock is lost: pass %s", types.ExprString(arg), own)
				}
			}
		}
		return true
	})
}

// place is where a path is, and what is known there of a lock.
type place struct {
	block    *cfg.Block
	deferred bool // its Unlock
	stale    bool // the variable of its error has another one
}

// checkLocks checks the paths from each assignment of a lock.
func (c *checker) checkLocks(g *cfg.CFG, body *ast.BlockStmt) {
	for _, b := range g.Blocks {
		for i, n := range b.Nodes {
			as, ok := n.(*ast.AssignStmt)
			if !ok || len(as.Rhs) != 1 || !locks.MatchString(c.typeOf(as.Rhs[0])) || !acquiring.MatchString(c.name(as.Rhs[0])) {
				continue
			}
			if id, ok := as.Lhs[0].(*ast.Ident); ok && (id.Name == "_" || c.TypesInfo.Defs[id] != nil) { // only body sees it
				c.checkLock(place{block: b}, i, as, id, body)
			}
		}
	}
}

func (c *checker) checkLock(from place, i int, as *ast.AssignStmt, id *ast.Ident, body *ast.BlockStmt) {
	lock, failure, given := c.TypesInfo.Defs[id], c.base(as.Lhs[1]), as.Rhs[0]
	if id.Name == "_" {
		lock = nil
	}
	if args := ast.Unparen(given).(*ast.CallExpr).Args; len(args) > 0 {
		given = args[0]
	}
	other := c.others(body, as.Pos(), func(e ast.Expr, v types.Object) bool {
		return v == c.base(given) && types.ExprString(e) == types.ExprString(given)
	})
	seen := map[place]bool{}
	var follow func(at place, i int)
	follow = func(at place, i int) {
		for _, n := range at.block.Nodes[i:] {
			if next, ok := n.(*ast.AssignStmt); ok {
				at.stale = at.stale || slices.ContainsFunc(next.Lhs, func(l ast.Expr) bool { return c.is(l, failure) })
			}
			ended, escapes := c.uses(n, lock)
			_, asks := c.uses(n, failure)
			if asks = asks && !at.stale; lock != nil && !asks && (at.deferred || !escapes) {
				c.checkContexts(n, id.Name+".Context()", inLock, other)
			}
			_, returns := n.(*ast.ReturnStmt)
			_, assigns := n.(*ast.AssignStmt)
			if _, ok := n.(*ast.DeferStmt); ok {
				at.deferred = at.deferred || ended || escapes
			} else if n != as && (ended || escapes && !at.deferred || asks && (lock == nil || assigns) || c.is(n, failure)) {
				return
			} else if returns || n == as {
				if !at.deferred {
					c.report(id, "the lock is still held in line %d: defer its Unlock once the error is nil", c.Fset.Position(n.Pos()).Line)
				}
				return
			}
		}
		for i, b := range at.block.Succs {
			next, nodes := place{b, at.deferred, at.stale}, at.block.Nodes
			if len(at.block.Succs) == 2 && len(nodes) > 0 && !at.stale && c.fails(nodes[len(nodes)-1], i == 0, lock, failure) {
				continue
			}
			if !seen[next] {
				seen[next] = true
				follow(next, 0)
			}
		}
	}
	follow(from, i+1)
}

// uses reports whether n ends a lock, or does more with a variable than to call a method or to compare it.
func (c *checker) uses(n ast.Node, v types.Object) (ended, escapes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			ended = ended || c.is(n.X, v) && (slices.Contains([]string{"Unlock", "HandOver", "Resign"}, n.Sel.Name) || !n.Sel.IsExported())
			return !c.is(n.X, v)
		case *ast.BinaryExpr:
			return !c.is(n.X, v)
		case *ast.Ident:
			escapes = escapes || c.is(n, v)
		}
		return true
	})
	return ended, escapes
}

// fails reports whether a condition that is true, or false, shows that the lock is not acquired.
func (c *checker) fails(cond ast.Node, is bool, lock, failure types.Object) bool {
	switch e := cond.(type) {
	case *ast.ParenExpr:
		return c.fails(e.X, is, lock, failure)
	case *ast.UnaryExpr:
		return c.fails(e.X, !is, lock, failure)
	case *ast.CallExpr: // errors.Is(err, quorum.ErrHeld)
		return is && slices.ContainsFunc(e.Args, func(arg ast.Expr) bool { return c.is(arg, failure) })
	case *ast.BinaryExpr:
		x, y := c.fails(e.X, is, lock, failure), c.fails(e.Y, is, lock, failure)
		if e.Op == token.LAND || e.Op == token.LOR {
			return x && y || (x || y) && is == (e.Op == token.LAND)
		}
		isNil := is == (e.Op == token.EQL)
		if c.TypesInfo.Types[e.X].IsNil() {
			e = &ast.BinaryExpr{X: e.Y, Y: e.X}
		}
		return c.TypesInfo.Types[e.Y].IsNil() && (c.is(e.X, failure) && !isNil || c.is(e.X, lock) && isNil)
	}
	return false
}

// checkReads checks statements that follow each other for a SELECT before the stamp of its transaction. It doesn't look at
// what only some paths do.
func (c *checker) checkReads(list []ast.Stmt, stamped map[types.Object]bool) {
	read, stamp := map[types.Object]ast.Node{}, ast.Node(nil)
	for _, s := range list {
		ast.Inspect(s, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
				return stamp != nil && n.Pos() < stamp.End() // the function that StampRow gets
			case *ast.CallExpr:
				if tx := c.base(n.Fun); stamping.MatchString(c.name(n)) {
					stamp = n
				} else if read[tx] == nil && slices.ContainsFunc(n.Args, c.isSelect) && !strings.Contains(c.name(n), ").Exec") {
					read[tx] = n
				}
			case *ast.Ident:
				if stamp == nil || n.Pos() > stamp.End() || !strings.HasSuffix(c.typeOf(n), ".Tx") {
					break
				}
				tx := c.TypesInfo.ObjectOf(n)
				if at := read[tx]; at != nil && !stamped[tx] {
					c.report(at, "an earlier holder may write between this and the stamp in line %d: stamp first", c.Fset.Position(stamp.Pos()).Line)
				}
				stamped[tx] = true
			}
			return true
		})
	}
}

// isSelect reports whether an argument is a statement that reads rows, and locks none: others may write them.
func (c *checker) isSelect(arg ast.Expr) bool {
	v := c.TypesInfo.Types[arg].Value
	return v != nil && v.Kind() == constant.String && reading.MatchString(constant.StringVal(v)) && !locking.MatchString(constant.StringVal(v))
}
