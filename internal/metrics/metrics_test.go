package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// A metric that All does not return is registered nowhere.
func TestAllReturnsEachMetric(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "metrics.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range All() {
		known[m.Name] = true
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || len(literal.Elts) < 2 {
			return true
		}
		if is, ok := literal.Type.(*ast.Ident); ok && is.Name == "Metric" {
			found++
			if name := literal.Elts[0].(*ast.BasicLit).Value; !known[name[1:len(name)-1]] {
				t.Errorf("All does not return %s", name)
			}
		}
		return true
	})
	if found != len(All()) {
		t.Errorf("%d metrics are declared, All returns %d", found, len(All()))
	}
}
