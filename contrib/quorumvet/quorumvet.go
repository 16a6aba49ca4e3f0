// Package quorumvet finds code that ignores its lock. Command quorumvet runs it under go vet.
//
// Code is under a lock in a function with the parameters (context.Context, *quorum.Lock), or (context.Context,
// *leader.Term), that a call such as Locker.Do gets, and between a call such as Locker.Lock and Unlock. Reported are:
//
//   - a call under a lock that gets a context which does not end when the lock is lost: one from around the function,
//     the one given to Lock, context.Background.
//   - a lock that stays held on a path on which the function neither unlocks it nor hands it on.
//   - a SELECT in a transaction before its stamp by package fence.
//
// It would rather miss a bug than report code that is right. It does not report:
//
//   - a context that may be the lock's: from a function, an element, or a field of what is assigned under the lock, or of what
//     a call gets beside a context; and one that a goroutine or context.AfterFunc cancels.
//   - a call that outlives the lock or cleans up (go, defer, AfterFunc, Close, Rollback, Shutdown), logs, measures or only
//     reads a value of the context, or gets the lock or its context, too; the lock's own methods.
//   - a lock on a path after its error was wrapped, kept in a variable or asked by another function than errors.Is and
//     errors.As, and after a flag was set.
//   - what follows once Valid or Err of the lock says that it is lost.
//   - a lock that goes into a variable, a field, a channel, a closure that unlocks, or a call: who gets it unlocks it.
//   - a SELECT that locks its rows, and one in a block that ends before the stamp.
//
// Of tests it reads only example*_test.go: others lock and lose in many ways. -quorumvet.tests reads all. A comment
// //quorumvet:ok with a reason, in the line or the line before, ends a report.
package quorumvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// Types and functions, by their full names.
const (
	root = `github\.com/quorumlock/quorumlock/`
	lock = `\*` + root + `(quorum\.Lock|leader\.Term)`
	// These may have any context: the lock's methods, what cleans up, and what logs, measures or reads the context's values.
	free = `^\(` + lock + `\)|^context\.|\.(Close|Rollback|Shutdown|Unlock|Release|Cleanup|AfterFunc|Ctx)$|From\w*Context$` +
		`|\b(log|slog|logger|logging|zap|zerolog|metrics?|trace|tracing|otel|opentelemetry)\b`
)

var (
	isLock    = regexp.MustCompile(`^` + lock + `$`)
	underLock = regexp.MustCompile(`^func\((\w+ )?context\.Context, (\w+ )?` + lock + `\b`)
	lockAlive = regexp.MustCompile(`^\(` + lock + `\)\.(Valid|Err)$`)
	acquired  = regexp.MustCompile(`^\((\w+ )?` + lock + `, (\w+ )?error\)`)
	acquiring = regexp.MustCompile(`\.((Try)?R?Lock|(Try)?Acquire|TakeOver|Campaign)$`)
	ending    = regexp.MustCompile(`^(Unlock|HandOver|Resign|[a-z].*)$`)
	noReturn  = regexp.MustCompile(`(?i)(exit|fatal\w*|panic\w*|failnow|skip\w*)$`)
	inDo      = regexp.MustCompile(free)
	inLock    = regexp.MustCompile(free + `|^\(?\*?` + root + `(quorum(/\w+|test)?|leader)\.|` + acquiring.String())
	empty     = regexp.MustCompile(`^context\.(Background|TODO)$`)
	plain     = regexp.MustCompile(`^\w+(\.\w+)*(\.Context\(\))?$`)
	keeping   = regexp.MustCompile(`^&?\w+(\.\w+)?$`)
	works     = regexp.MustCompile(`^\(\)$|\berror\)?$`) // the results of a function that does more than read a value
	unread    = regexp.MustCompile(`^(.*[/\\])?([^e]|e[^x])[^/\\]*_test\.go$`)
	stamping  = regexp.MustCompile(`^\(?` + root + `fence\.(Column\)\.)?Stamp`)
	reading   = regexp.MustCompile(`(?is)^\s*SELECT\b.*\bFROM\b`)
	locking   = regexp.MustCompile(`(?i)\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE)\b`) // nobody writes the row before the transaction ends
)

// Analyzer makes the reports: an *analysis.Analyzer of golang.org/x/tools/go/analysis.
var Analyzer = newAnalyzer()

func newAnalyzer() *analysis.Analyzer {
	a := &analysis.Analyzer{Name: "quorumvet", Doc: "find code that ignores its quorumlock lock"}
	tests := a.Flags.Bool("tests", false, "read all tests, not only examples")
	a.Run = func(pass *analysis.Pass) (any, error) {
		c := &checker{Pass: pass, tests: *tests, quiet: map[[2]any]bool{}, named: map[types.Object]*ast.FuncLit{},
			reads: map[types.Object]ast.Node{}, ends: map[types.Object]token.Pos{}}
		for _, file := range pass.Files {
			c.prepare(file)
		}
		for _, file := range pass.Files {
			ast.Inspect(file, c.check)
		}
		return nil, nil
	}
	return a
}

type checker struct {
	*analysis.Pass
	tests  bool
	quiet  map[[2]any]bool // files and lines that are excused, or have a report: code may be under two locks
	named  map[types.Object]*ast.FuncLit
	blocks []ast.Node                 // around the node, and some that ended
	reads  map[types.Object]ast.Node  // a transaction's SELECT
	ends   map[types.Object]token.Pos // where the block of the SELECT ends; -1 once there is a stamp
}

func (c *checker) report(at ast.Node, format string, args ...any) {
	p := c.Fset.Position(at.Pos())
	if in := [2]any{p.Filename, p.Line}; !c.quiet[in] && (c.tests || !unread.MatchString(p.Filename)) {
		c.quiet[in] = true
		c.ReportRangef(at, format, args...)
	}
}

// prepare notes which lines are excused and which functions there are, and checks the locks of these.
func (c *checker) prepare(file *ast.File) {
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
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			c.named[c.TypesInfo.Defs[f.Name]] = &ast.FuncLit{Type: f.Type, Body: f.Body}
			c.checkLocks(f.Body)
		}
	}
}

func (c *checker) check(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		c.blocks = append(c.blocks, n)
	case *ast.FuncLit:
		c.checkLocks(n.Body)
	case *ast.CallExpr:
		c.checkReads(n)
		for _, arg := range n.Args {
			f, ok := ast.Unparen(arg).(*ast.FuncLit)
			if !ok {
				f = c.named[typeutil.Callee(c.TypesInfo, &ast.CallExpr{Fun: arg})]
			}
			if f != nil && underLock.MatchString(c.typeOf(arg)) {
				c.checkContexts(f.Body, inDo, c.others(f.Body, f.Body.Pos(), func(_ ast.Expr, v types.Object) bool {
					return v.Pos() < f.Type.Params.Pos() || v.Pos() > f.End()
				}))
			}
		}
	}
	return true
}

func (c *checker) typeOf(e ast.Expr) string { return types.TypeString(c.TypesInfo.TypeOf(e), nil) }

func (c *checker) isContext(e ast.Expr) bool { return c.typeOf(e) == "context.Context" }

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

// others returns a function that reports whether a context does not end with a lock. outside says so of a variable, and of
// what begins with one; body defines further ones, and changes some, after from.
func (c *checker) others(body ast.Node, from token.Pos, outside func(ast.Expr, types.Object) bool) func(ast.Expr) bool {
	others := map[types.Object]bool{} // false of what may be the lock's
	other := func(e ast.Expr) bool {
		for strings.HasPrefix(c.name(e), "context.With") && c.name(e) != "context.WithoutCancel" {
			e = ast.Unparen(e).(*ast.CallExpr).Args[0]
		}
		name, text, v := c.name(e), types.ExprString(e), c.base(e)
		is, known := others[v]
		return empty.MatchString(name) || plain.MatchString(text) && !inDo.MatchString(name) && (is || !known && outside(e, v))
	}
	cancels := map[types.Object]types.Object{} // the contexts of their cancel functions
	for n := range ast.Preorder(body) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if v := c.base(l); n.Pos() > from {
					others[v] = v != nil && v.Pos() == l.Pos() && other(n.Rhs[min(i, len(n.Rhs)-1)])
				}
			}
			if cancel := c.base(n.Lhs[len(n.Lhs)-1]); cancel != nil && c.isContext(n.Lhs[0]) {
				cancels[cancel] = c.base(n.Lhs[0])
			}
		case *ast.GoStmt:
			c.cancelled(n.Call, cancels, others)
		case *ast.CallExpr: // what gets a context may keep it
			if c.name(n) == "context.AfterFunc" {
				c.cancelled(n, cancels, others)
			}
			for _, e := range append([]ast.Expr{n.Fun}, n.Args...) {
				if keeping.MatchString(types.ExprString(e)) && !c.isContext(e) && slices.ContainsFunc(n.Args, c.isContext) {
					others[c.base(e)] = false
				}
			}
		}
	}
	return other
}

// cancelled notes contexts that a call may end with the lock, as context.AfterFunc does, and a goroutine that waits for it.
func (c *checker) cancelled(call *ast.CallExpr, cancels map[types.Object]types.Object, others map[types.Object]bool) {
	for n := range ast.Preorder(call) {
		if id, ok := n.(*ast.Ident); ok && cancels[c.TypesInfo.Uses[id]] != nil {
			others[cancels[c.TypesInfo.Uses[id]]] = false
		}
	}
}

func (c *checker) checkContexts(in ast.Node, free *regexp.Regexp, other func(ast.Expr) bool) {
	own := func(arg ast.Expr) bool { return isLock.MatchString(c.typeOf(arg)) || c.isContext(arg) && !other(arg) }
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt: // what outlives the lock, and what cleans up
			return false
		case *ast.IfStmt:
			if c.value(n.Cond, nil) < 0 { // what follows comes once the lock is lost
				if n.Else != nil {
					c.checkContexts(n.Else, free, other)
				}
				return false
			}
		case *ast.CallExpr:
			if free.MatchString(c.name(n)) {
				return false
			}
			i := slices.IndexFunc(n.Args, c.isContext)
			reads := len(n.Args) == 1 && !works.MatchString(c.typeOf(n)) && !empty.MatchString(c.name(n.Args[0]))
			if i >= 0 && !reads && !slices.ContainsFunc(n.Args, own) {
				c.report(n.Args[i], "%s does not end when the lock is lost: pass the lock's context", types.ExprString(n.Args[i]))
			}
		}
		return true
	})
}

// checkLocks follows the paths from each call that acquires a lock, as if it did.
func (c *checker) checkLocks(body *ast.BlockStmt) {
	returns := func(call *ast.CallExpr) bool { return !noReturn.MatchString(types.ExprString(call.Fun)) }
	for _, b := range cfg.New(body, returns).Blocks {
		for i, n := range b.Nodes {
			as, ok := n.(*ast.AssignStmt)
			if ok && acquired.MatchString(c.typeOf(as.Rhs[0])) && acquiring.MatchString(c.name(as.Rhs[0])) {
				if lock := c.base(as.Lhs[0]); lock == nil || lock.Pos() == as.Lhs[0].Pos() { // only body sees it
					c.checkLock(b, i, as, lock, body)
				}
			}
		}
	}
}

func (c *checker) checkLock(first *cfg.Block, i int, as *ast.AssignStmt, lock types.Object, body *ast.BlockStmt) {
	given := slices.Concat(ast.Unparen(as.Rhs[0]).(*ast.CallExpr).Args, as.Rhs)[0]
	other := c.others(body, as.Pos(), func(e ast.Expr, v types.Object) bool {
		return v == c.base(given) && types.ExprString(e) == types.ExprString(given)
	})
	seen := map[[3]any]bool{}
	var follow func(b *cfg.Block, i int, failure types.Object, deferred bool)
	// failure is the variable of the lock's error, until it has another one.
	follow = func(b *cfg.Block, i int, failure types.Object, deferred bool) {
		for _, n := range b.Nodes[i:] {
			_, returns := n.(*ast.ReturnStmt)
			_, defers := n.(*ast.DeferStmt)
			passes, ends := c.uses(n, lock)
			asks, changes := c.uses(n, failure)
			if b != first && types.ExprString(as.Lhs[0]) != "_" && !ends && (deferred || !passes) { // its error is looked at
				c.checkContexts(n, inLock, other)
			}
			switch left := returns || n == as; {
			case defers:
				deferred = deferred || passes || ends
			case left && deferred, n != as && (ends || passes && !deferred || asks && (b == first || !returns)):
				return
			case left:
				in := c.Fset.Position(n.Pos()).Line
				c.report(as, "the lock is still held in line %d: defer its Unlock once the error is nil", in)
				return
			case changes:
				failure = nil
			}
		}
		for i, to := range b.Succs {
			at := [3]any{to, failure, deferred}
			if !seen[at] && (len(b.Nodes) == 0 || c.value(b.Nodes[len(b.Nodes)-1], failure) != 2*i-1) {
				seen[at] = true
				follow(to, 0, failure, deferred)
			}
		}
	}
	follow(first, i+1, c.base(as.Lhs[1]), false)
}

// uses reports whether n passes a variable on, or sets a flag, on which conditions may depend, and whether n ends its lock,
// or gives it another value.
func (c *checker) uses(n ast.Node, v types.Object) (passes, ends bool) {
	_, asks := n.(ast.Expr)
	asks = asks && v != nil && v.Type().String() == "error" // value understands it
	harmless := map[ast.Node]bool{}
	for n := range ast.Preorder(n) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				harmless[l], ends = true, ends || c.base(l) == v
			}
			passes = passes || slices.Contains([]string{"true", "false"}, types.ExprString(n.Rhs[0]))
		case *ast.SelectorExpr:
			harmless[n.X] = true
			ends = ends || c.base(n.X) == v && ending.MatchString(n.Sel.Name)
		case *ast.BinaryExpr:
			harmless[n.X] = asks
		case *ast.CallExpr:
			for _, arg := range n.Args {
				harmless[arg] = asks && strings.HasPrefix(c.name(n), "errors.")
			}
		case *ast.Ident:
			passes = passes || v != nil && c.TypesInfo.Uses[n] == v && !harmless[n]
		}
	}
	return passes, ends
}

// value returns what a condition is if the error is nil and the lock is not lost: 1 for true, -1 for false, 0 for either.
func (c *checker) value(cond ast.Node, failure types.Object) int {
	switch e := cond.(type) {
	case *ast.Ident: // whether it is nil
		if failure != nil && c.TypesInfo.Uses[e] == failure {
			return 1
		}
	case *ast.ParenExpr:
		return c.value(e.X, failure)
	case *ast.UnaryExpr:
		return -c.value(e.X, failure)
	case *ast.CallExpr: // errors.Is(err, quorum.ErrHeld)
		if lockAlive.MatchString(c.name(e)) {
			return 1
		} else if len(e.Args) > 0 {
			return -c.value(e.Args[0], failure)
		}
	case *ast.BinaryExpr:
		x, y := c.value(e.X, failure), c.value(e.Y, failure)
		switch {
		case e.Op == token.LAND:
			return min(x, y)
		case e.Op == token.LOR:
			return max(x, y)
		case (e.Op == token.EQL) == c.TypesInfo.Types[e.Y].IsNil():
			return x
		}
		return -x
	}
	return 0
}

// checkReads checks a stamp, or notes a SELECT, which it must not follow in the same block or in one within.
func (c *checker) checkReads(call *ast.CallExpr) {
	tx, name := c.base(call.Fun), c.name(call)
	if strings.HasSuffix(name, ".Commit") {
		delete(c.ends, tx)
	}
	for n := range ast.Preorder(call) {
		if id, ok := n.(*ast.Ident); ok && stamping.MatchString(name) {
			tx := c.TypesInfo.ObjectOf(id)
			if c.ends[tx] > call.Pos() {
				in := c.Fset.Position(call.Pos()).Line
				c.report(c.reads[tx], "an earlier holder may write between this and the stamp in line %d: stamp first", in)
			}
			c.ends[tx] = -1
		}
	}
	for _, arg := range call.Args {
		text := c.TypesInfo.Types[arg].Value
		if text == nil || text.Kind() != constant.String || strings.Contains(name, ").Exec") ||
			!reading.MatchString(constant.StringVal(text)) || locking.MatchString(constant.StringVal(text)) {
			continue
		}
		if end := c.ends[tx]; end >= 0 && end < call.Pos() && tx != nil && strings.HasSuffix(tx.Type().String(), ".Tx") {
			c.blocks = slices.DeleteFunc(c.blocks, func(b ast.Node) bool { return b.End() <= call.Pos() })
			c.reads[tx], c.ends[tx] = call, c.blocks[len(c.blocks)-1].End()
		}
	}
}
