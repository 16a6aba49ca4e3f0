package quorumvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"regexp"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

var (
	stamping = regexp.MustCompile(`^\(?` + root + `fence\.(Column\)\.)?Stamp`)
	reading  = regexp.MustCompile(`(?is)^\s*SELECT\b.*\bFROM\b`)
	locking  = regexp.MustCompile(`(?i)\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE)\b`) // nobody writes the row before the transaction ends
)

// read is a transaction's SELECT before its stamp, or the stamp.
type read struct {
	at  ast.Node
	end token.Pos // of the SELECT's block; -1 for the stamp
}

// checkReads checks a stamp, or notes a SELECT, which it must not follow in the same block or in one within.
func (c *checker) checkReads(at inspector.Cursor, call *ast.CallExpr) {
	tx, name := c.base(call.Fun), c.name(call)
	if strings.HasSuffix(name, ".Commit") {
		delete(c.reads, tx)
	}
	for n := range ast.Preorder(call) {
		if id, ok := n.(*ast.Ident); ok && stamping.MatchString(name) {
			tx := c.TypesInfo.ObjectOf(id)
			if r := c.reads[tx]; r.end > call.Pos() {
				c.report(r.at, "an earlier holder may write between this and the stamp in line %d: stamp first", c.line(call.Pos()))
			}
			c.reads[tx] = read{call, -1}
		}
	}
	if tx == nil || !strings.HasSuffix(tx.Type().String(), ".Tx") || strings.Contains(name, ").Exec") {
		return
	}
	for _, arg := range call.Args {
		value := c.TypesInfo.Types[arg].Value
		if value == nil || value.Kind() != constant.String {
			continue
		}
		text, end := constant.StringVal(value), c.reads[tx].end
		if reading.MatchString(text) && !locking.MatchString(text) && end >= 0 && end < call.Pos() {
			for block := range at.Enclosing((*ast.BlockStmt)(nil), (*ast.CaseClause)(nil), (*ast.CommClause)(nil)) {
				c.reads[tx] = read{call, block.Node().End()}
				break
			}
		}
	}
}
