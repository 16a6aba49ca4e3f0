package quorumvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// These may have any context: the lock's methods, what cleans up, and what logs, measures or reads the context's values.
const free = `^\(` + lock + `\)|^context\.|\.(Close|Rollback|Shutdown|Unlock|Release|Cleanup|AfterFunc|Ctx)$|From\w*Context$` +
	`|\b(log|slog|logger|logging|zap|zerolog|metrics?|trace|tracing|otel|opentelemetry)\b`

var (
	underLock = regexp.MustCompile(`^func\((\w+ )?context\.Context, (\w+ )?` + lock + `\b`)
	inDo      = regexp.MustCompile(free)
	inLock    = regexp.MustCompile(free + `|^\(?\*?` + root + `(quorum(/\w+|test)?|leader)\.|` + acquiring.String())
	deriving  = regexp.MustCompile(`^context\.With[^o]|^golang\.org/x/sync/errgroup\.WithContext$`)
	besides   = regexp.MustCompile(`^context\.AfterFunc$|\.Go$`) // what runs beside the function
	empty     = regexp.MustCompile(`^context\.(Background|TODO)$`)
	plain     = regexp.MustCompile(`^\w+(\.\w+)*(\.Context\(\))?$`) // a variable, a field, or what its Context returns
	keeping   = regexp.MustCompile(`^&?\w+(\.\w+)?$`)               // what may keep a context that a call gets
	works     = regexp.MustCompile(`^\(\)$|\berror\)?$`)            // the results of a function that does more than read a value
)

// checkFunctions checks the functions that a call such as Locker.Do gets.
func (c *checker) checkFunctions(call *ast.CallExpr) {
	for _, arg := range call.Args {
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
			(at > ended && at < e.Pos() || !known && v != nil && (ended == 0 || isParam(v)) && outside(e, v))
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

func isParam(v types.Object) bool {
	param, ok := v.(*types.Var)
	return ok && param.Kind() == types.ParamVar
}

// checkContexts checks the calls in a node that is under a lock, but not those of exempt functions.
func (c *checker) checkContexts(in ast.Node, exempt *regexp.Regexp, other func(ast.Expr) bool) {
	own := func(arg ast.Expr) bool { return isLock.MatchString(c.typeOf(arg)) || c.isContext(arg) && !other(arg) }
	lost := map[ast.Node]bool{} // what may come once the lock is lost
	ast.Inspect(in, func(n ast.Node) bool {
		if n != nil && lost[n] {
			return false
		}
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt: // what outlives the lock, and what cleans up
			return false
		case *ast.IfStmt:
			var reason types.Object
			if init, ok := n.Init.(*ast.AssignStmt); ok && alive.MatchString(c.name(init.Rhs[0])) {
				reason = c.base(init.Lhs[0])
			}
			isAlive := c.value(n.Cond, reason, alive)
			lost[n.Body], lost[n.Else] = isAlive < 0, isAlive > 0
		case *ast.BlockStmt:
			for i, s := range n.List {
				lost[s] = i > 0 && (lost[n.List[i-1]] || c.awaitsEnd(n.List[i-1]))
			}
		case *ast.CaseClause:
			return len(n.List) != 1 || c.value(n.List[0], nil, alive) >= 0
		case *ast.CommClause:
			return !c.awaitsEnd(n.Comm)
		case *ast.KeyValueExpr: // a field may keep a function for later
			return !isLiteral(n.Value)
		case *ast.AssignStmt: // so may a variable of before
			id, whole := n.Lhs[0].(*ast.Ident)
			return !isLiteral(n.Rhs[0]) || whole && (isBlank(id) || c.base(id).Pos() >= in.Pos())
		case *ast.CallExpr:
			keeps := types.ExprString(n.Fun) == "append" && slices.ContainsFunc(n.Args, isLiteral)
			if keeps || exempt.MatchString(c.name(n)) {
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

// awaitsEnd reports whether a statement waits for the end of a context.
func (c *checker) awaitsEnd(s ast.Stmt) bool {
	wait, isAlone := s.(*ast.ExprStmt)
	if !isAlone {
		return false
	}
	from, ok := ast.Unparen(wait.X).(*ast.UnaryExpr)
	return ok && c.name(from.X) == "(context.Context).Done"
}

func isLiteral(e ast.Expr) bool {
	_, ok := e.(*ast.FuncLit)
	return ok
}
