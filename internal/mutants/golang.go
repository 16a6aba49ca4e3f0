//go:build unix

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
)

// instrumented is a Go file in which each mutant's edit is carried out if isMutant(its number).
type instrumented struct {
	set     *token.FileSet
	text    string
	file    string
	fn      string // in which the edits are
	before  int    // mutants of other files
	mutants []mutant
}

// instrument returns a Go file with its mutants, whose numbers follow on from the mutants before. It has no comments.
func instrument(file, text string, before int) (string, []mutant, error) {
	in := &instrumented{set: token.NewFileSet(), text: text, file: file, before: before}
	f, err := parser.ParseFile(in.set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		in.fn = fn.Name.Name
		if fn.Recv != nil {
			in.fn = strings.TrimPrefix(in.source(fn.Recv.List[0].Type), "*") + "." + in.fn
		}
		var nodes []ast.Node
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			nodes = append(nodes, n)
			return true
		})
		for _, n := range nodes {
			in.edit(n)
		}
	}
	var b bytes.Buffer
	err = format.Node(&b, in.set, f)
	return b.String(), in.mutants, err
}

func (in *instrumented) edit(node ast.Node) {
	switch n := node.(type) {
	case *ast.IfStmt:
		never := and(not(in.add(n.Cond, "never: if "+in.source(n.Cond))), n.Cond)
		n.Cond = or(in.add(n.Cond, "always: if "+in.source(n.Cond)), never)
	case *ast.ForStmt:
		if n.Cond != nil {
			n.Cond = and(not(in.add(n.Cond, "never: for "+in.source(n.Cond))), n.Cond)
		}
	case *ast.BinaryExpr:
		whole := in.source(n)
		for _, operand := range []*ast.Expr{&n.X, &n.Y} {
			edit := "without " + in.source(*operand) + " in " + whole
			switch n.Op {
			case token.LAND:
				*operand = or(in.add(*operand, edit), *operand)
			case token.LOR:
				*operand = and(not(in.add(*operand, edit)), *operand)
			}
		}
	case *ast.SwitchStmt:
		in.editCases(n)
	case *ast.BlockStmt:
		in.editStatements(n.List)
	case *ast.CaseClause:
		in.editStatements(n.Body)
	case *ast.CommClause:
		in.editStatements(n.Body)
	}
}

// editCases makes a switch without a tag of one with it, whose cases cannot be left out.
func (in *instrumented) editCases(n *ast.SwitchStmt) {
	tag := n.Tag
	if _, isCall := tag.(*ast.CallExpr); isCall {
		if n.Init != nil {
			return
		}
		name := ast.NewIdent("leftOutTag")
		n.Init = &ast.AssignStmt{Lhs: []ast.Expr{name}, Tok: token.DEFINE, Rhs: []ast.Expr{tag}}
		tag = name
	}
	n.Tag = nil
	for _, s := range n.Body.List {
		for i, value := range s.(*ast.CaseClause).List {
			is := value
			if tag != nil {
				is = &ast.BinaryExpr{X: tag, Op: token.EQL, Y: paren(value)}
			}
			s.(*ast.CaseClause).List[i] = and(not(in.add(value, "without case "+in.source(value))), is)
		}
	}
}

// editStatements makes statements conditional that can be left out.
func (in *instrumented) editStatements(list []ast.Stmt) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.RangeStmt:
		case *ast.ExprStmt:
			if strings.HasPrefix(in.source(s), "panic(") { // a function may end there
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		default:
			continue
		}
		without := not(in.add(s, "without "+in.source(s)))
		list[i] = &ast.IfStmt{Cond: without, Body: &ast.BlockStmt{List: []ast.Stmt{s}}}
	}
}

// add adds a mutant, and returns the expression that is true in it.
func (in *instrumented) add(at ast.Node, edit string) ast.Expr {
	in.mutants = append(in.mutants, mutant{file: in.file, line: in.set.Position(at.Pos()).Line, where: in.fn, edit: shown(edit)})
	number := &ast.BasicLit{Kind: token.INT, Value: fmt.Sprint(in.before + len(in.mutants))}
	return &ast.CallExpr{Fun: ast.NewIdent("isMutant"), Args: []ast.Expr{number}}
}

// source returns a node's text in the file.
func (in *instrumented) source(n ast.Node) string {
	return in.text[in.set.Position(n.Pos()).Offset:in.set.Position(n.End()).Offset]
}

func paren(x ast.Expr) ast.Expr  { return &ast.ParenExpr{X: x} }
func not(x ast.Expr) ast.Expr    { return &ast.UnaryExpr{Op: token.NOT, X: x} }
func and(x, y ast.Expr) ast.Expr { return paren(&ast.BinaryExpr{X: x, Op: token.LAND, Y: paren(y)}) }
func or(x, y ast.Expr) ast.Expr  { return paren(&ast.BinaryExpr{X: x, Op: token.LOR, Y: paren(y)}) }
