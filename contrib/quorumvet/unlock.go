package quorumvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/cfg"
)

var (
	ending    = regexp.MustCompile(`^(Unlock|HandOver|Resign|[a-z].*)$`)
	noReturn  = regexp.MustCompile(`(?i)(exit|fatal\w*|panic\w*|failnow|skip\w*)$`)
	lockAlive = regexp.MustCompile(`^\(` + lock + `\)\.(Valid|Err)$`)
	alive     = regexp.MustCompile(lockAlive.String() + `|^\(context\.Context\)\.Err$|^context\.Cause$`)
)

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

func isBlank(e ast.Expr) bool { return types.ExprString(e) == "_" }

// checkLock follows the paths from as, node i of block first, which assigns the lock.
func (c *checker) checkLock(first *cfg.Block, i int, as *ast.AssignStmt, lock types.Object, body *ast.BlockStmt) {
	given := slices.Concat(ast.Unparen(as.Rhs[0]).(*ast.CallExpr).Args, as.Rhs)[0]
	other := c.others(body, as.Pos(), func(e ast.Expr, v types.Object) bool {
		return v == c.base(given) && types.ExprString(e) == types.ExprString(given)
	})
	seen := map[[3]any]bool{}
	var follow func(b *cfg.Block, i int, failure types.Object, deferred bool, at token.Pos)
	// failure is the variable of the lock's error, until it has another one; at is where the path has come to.
	follow = func(b *cfg.Block, i int, failure types.Object, deferred bool, at token.Pos) {
		for _, n := range b.Nodes[i:] {
			_, returns := n.(*ast.ReturnStmt)
			_, defers := n.(*ast.DeferStmt)
			if returns || n.Pos() > at { // a select reads what its later cases wait for, then returns in an earlier one
				at = n.Pos()
			}
			passes, ends := c.uses(n, lock)
			asks, changes := c.uses(n, failure)
			if b != first && lock != nil && !ends && (deferred || !passes) { // its error is looked at
				c.checkContexts(n, inLock, other)
			}
			switch left := returns || n == as; {
			case defers:
				deferred = deferred || passes || ends
			case left && deferred, n != as && (ends || passes && !deferred || asks && (b == first || !returns)):
				return // unlocked or handed on, or its error is asked for what value does not know
			case left:
				c.report(as, "the lock is still held after line %d: unlock it there, or move the work into Do", c.line(at))
				return
			case changes:
				failure = nil
			}
		}
		for i, to := range b.Succs {
			state := [3]any{to, failure, deferred}
			if !seen[state] && (len(b.Nodes) == 0 || c.value(b.Nodes[len(b.Nodes)-1], failure, lockAlive) != 2*i-1) {
				seen[state] = true
				follow(to, 0, failure, deferred, at)
			}
		}
	}
	follow(first, i+1, c.base(as.Lhs[1]), false, as.End())
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

// value returns what a condition is if the error is nil, and what asks whether the lock is lost says that it is not: 1 for
// true, -1 for false, 0 for either.
func (c *checker) value(cond ast.Node, failure types.Object, asks *regexp.Regexp) int {
	e, _ := cond.(ast.Expr)
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident: // whether it is nil
		if failure != nil && c.TypesInfo.Uses[e] == failure {
			return 1
		}
	case *ast.UnaryExpr:
		return -c.value(e.X, failure, asks)
	case *ast.CallExpr: // errors.Is(err, quorum.ErrHeld)
		if asks.MatchString(c.name(e)) {
			return 1
		} else if len(e.Args) > 0 {
			return -c.value(e.Args[0], failure, asks)
		}
	case *ast.BinaryExpr:
		x, y := c.value(e.X, failure, asks), c.value(e.Y, failure, asks)
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
