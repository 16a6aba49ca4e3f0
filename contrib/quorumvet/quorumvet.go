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
//   - what follows once Valid or Err of the lock says that it is lost.
//   - a lock that goes into a variable, a field, a channel, a closure that unlocks, or a call: who gets it unlocks it.
//   - a SELECT that locks its rows, and one in a block that ends before the stamp.
//
// Of tests it reads only example*_test.go: others lock and lose in many ways. A comment //quorumvet:ok with a reason, in the
// line or the line before, ends a report.
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
	deriving  = regexp.MustCompile(`^context\.With[^o]|^golang\.org/x/sync/errgroup\.WithContext$`)
	besides   = regexp.MustCompile(`^context\.AfterFunc$|\.Go$`) // what runs beside the function
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
var Analyzer = &analysis.Analyzer{Name: "quorumvet", Doc: "find code that ignores its quorumlock lock", Run: run}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{Pass: pass, quiet: map[[2]any]bool{}, named: map[types.Object]*ast.FuncLit{},
		reads: map[types.Object]ast.Node{}, ends: map[types.Object]token.Pos{}}
	for _, file := range pass.Files {
		c.prepare(file)
	}
	for _, file := range pass.Files {
		for n := range ast.Preorder(file) {
			c.check(n)
		}
	}
	return nil, nil
}

type checker struct {
	*analysis.Pass
	quiet  map[[2]any]bool // files and lines that are excused, or have a report: code may be under two locks
	named  map[types.Object]*ast.FuncLit
	blocks []ast.Node                 // around the node, and some that ended
	reads  map[types.Object]ast.Node  // a transaction's SELECT
	ends   map[types.Object]token.Pos // where the block of the SELECT ends; -1 once there is a stamp
}

func (c *checker) line(at token.Pos) int { return c.Fset.Position(at).Line }

func (c *checker) report(at ast.Node, format string, args ...any) {
	p := c.Fset.Position(at.Pos())
	if in := [2]any{p.Filename, p.Line}; !c.quiet[in] && !unread.MatchString(p.Filename) {
		c.quiet[in] = true
		c.ReportRangef(at, "quorumvet: "+format, args...)
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

func (c *checker) check(n ast.Node) {
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

// others returns a function that reports whether a context does not end with a lock. outside says so of a variable, and of
// what begins with one; body defines further ones, and changes some, after from.
func (c *checker) others(body *ast.BlockStmt, from token.Pos, outside func(ast.Expr, types.Object) bool) func(ast.Expr) bool {
	since := map[types.Object]token.Pos{} // where a variable gets such a context; 0 if it may have the lock's
	var background, ended token.Pos       // the end of what runs beside body; where it may end contexts with the lock
	other := func(e ast.Expr) bool {
		for deriving.MatchString(c.name(e)) {
			e = ast.Unparen(e).(*ast.CallExpr).Args[0]
		}
		v, name := c.base(e), c.name(e)
		at, known := since[v]
		return empty.MatchString(name) || plain.MatchString(types.ExprString(e)) && !inDo.MatchString(name) &&
			(at > ended && at < e.Pos() || !known && v != nil && outside(e, v))
	}
	for n := range ast.Preorder(body) {
		if n.Pos() <= from {
			continue
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			always := n.Tok == token.DEFINE || slices.Contains(body.List, ast.Stmt(n))
			for i, l := range n.Lhs {
				at := n.End()
				if _, whole := l.(*ast.Ident); !whole || !always || !other(n.Rhs[min(i, len(n.Rhs)-1)]) {
					at = 0
				}
				since[c.base(l)] = at
			}
		case *ast.GoStmt:
			background = n.End()
		case *ast.Ident:
			if n.Pos() < background && (isLock.MatchString(c.typeOf(n)) || c.isContext(n) && !other(n)) {
				ended = n.Pos()
			}
		case *ast.CallExpr: // what gets a context may keep it
			if besides.MatchString(c.name(n)) {
				background = n.End()
			}
			for _, e := range append([]ast.Expr{n.Fun}, n.Args...) {
				if keeping.MatchString(types.ExprString(e)) && !c.isContext(e) && slices.ContainsFunc(n.Args, c.isContext) {
					since[c.base(e)] = 0
				}
			}
		}
	}
	return other
}

func (c *checker) checkContexts(in ast.Node, free *regexp.Regexp, other func(ast.Expr) bool) {
	own := func(arg ast.Expr) bool { return isLock.MatchString(c.typeOf(arg)) || c.isContext(arg) && !other(arg) }
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt: // what outlives the lock, and what cleans up
			return false
		case *ast.IfStmt:
			return c.value(n.Cond, nil) >= 0 // else what follows comes once the lock is lost
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

func isBlank(e ast.Expr) bool { return types.ExprString(e) == "_" }

// checkLocks follows the paths from each call that acquires a lock, as if it did.
func (c *checker) checkLocks(body *ast.BlockStmt) {
	returns := func(call *ast.CallExpr) bool { return !noReturn.MatchString(types.ExprString(call.Fun)) }
	for _, b := range cfg.New(body, returns).Blocks {
		for i, n := range b.Nodes {
			as, assigns := n.(*ast.AssignStmt)
			assigns = assigns && c.acquires(as.Rhs[0])
			call, alone := n.(*ast.ExprStmt)
			if alone && c.acquires(call.X) || assigns && isBlank(as.Lhs[0]) && !strings.Contains(c.name(as.Rhs[0]), ".Try") {
				c.report(n, "nobody can unlock this lock: keep it and unlock it, or call Do")
			} else if assigns && (isBlank(as.Lhs[0]) || c.base(as.Lhs[0]).Pos() == as.Lhs[0].Pos()) { // only body sees it
				c.checkLock(b, i, as, c.base(as.Lhs[0]), body)
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
	var follow func(b *cfg.Block, i int, failure types.Object, deferred bool, at token.Pos)
	// failure is the variable of the lock's error, until it has another one; at is where the path has come to.
	follow = func(b *cfg.Block, i int, failure types.Object, deferred bool, at token.Pos) {
		if strings.HasSuffix(b.Kind.String(), "Done") {
			at = max(at, b.Stmt.End())
		}
		for _, n := range b.Nodes[i:] {
			_, returns := n.(*ast.ReturnStmt)
			_, defers := n.(*ast.DeferStmt)
			passes, ends := c.uses(n, lock)
			asks, changes := c.uses(n, failure)
			if b != first && lock != nil && !ends && (deferred || !passes) { // its error is looked at
				c.checkContexts(n, inLock, other)
			}
			switch left := returns || n == as; {
			case defers:
				deferred = deferred || passes || ends
			case left && deferred, n != as && (ends || passes && !deferred || asks && (b == first || !returns)):
				return
			case left:
				in := c.line(leaves(body, as, n, at))
				c.report(as, "the lock is still held in line %d: unlock it there, or move the work into Do", in)
				return
			case changes:
				failure = nil
			}
			at = max(at, n.End())
		}
		for i, to := range b.Succs {
			state := [3]any{to, failure, deferred}
			if !seen[state] && (len(b.Nodes) == 0 || c.value(b.Nodes[len(b.Nodes)-1], failure) != 2*i-1) {
				seen[state] = true
				follow(to, 0, failure, deferred, at)
			}
		}
	}
	follow(first, i+1, c.base(as.Lhs[1]), false, as.End())
}

// leaves returns where a path that came to at leaves the lock held: at last, a return, or if that is as, in a loop, at a
// continue, or at the end of a block around as.
func leaves(body *ast.BlockStmt, as, last ast.Node, at token.Pos) token.Pos {
	end := last.Pos()
	for n := range ast.Preorder(body) {
		_, block := n.(*ast.BlockStmt)
		_, jump := n.(*ast.BranchStmt)
		if last == as && (block && n.Pos() < as.Pos() && at < n.End() || jump && at <= n.Pos() && n.Pos() < end) {
			end = n.End() - 1
		}
	}
	return end
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
	e, _ := cond.(ast.Expr)
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident: // whether it is nil
		if failure != nil && c.TypesInfo.Uses[e] == failure {
			return 1
		}
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
				c.report(c.reads[tx], "an earlier holder may write between this and the stamp in line %d: stamp first", c.line(call.Pos()))
			}
			c.ends[tx] = -1
		}
	}
	if tx == nil || !strings.HasSuffix(tx.Type().String(), ".Tx") || strings.Contains(name, ").Exec") {
		return
	}
	for _, arg := range call.Args {
		text := c.TypesInfo.Types[arg].Value
		if end := c.ends[tx]; text != nil && text.Kind() == constant.String && reading.MatchString(constant.StringVal(text)) &&
			!locking.MatchString(constant.StringVal(text)) && end >= 0 && end < call.Pos() {
			c.blocks = slices.DeleteFunc(c.blocks, func(b ast.Node) bool { return b.End() <= call.Pos() })
			c.reads[tx], c.ends[tx] = call, c.blocks[len(c.blocks)-1].End()
		}
	}
}
