package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// says is what the code of the library may tell an operator, each with where it stands.
type says struct {
	lines  map[string]string // log messages, without "quorumlock: "
	errors map[string]string // sentinels, as "node.ErrDown"
}

// whatTheCodeSays reads the library's packages. Commands print, and do not log; quorumchaos serves tests, and standin the demo.
func whatTheCodeSays(t *testing.T) says {
	t.Helper()
	found := says{map[string]string{}, map[string]string{}}
	must(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (path == "../integration" || path == "../bench" || path == "../cmd" ||
			path == "../contrib/quorumchaos" || path == "../internal/standin" || entry.Name() == "testdata" ||
			strings.HasPrefix(entry.Name(), ".") && path != "..") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			isTest := func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }
			if !slices.ContainsFunc(file.Imports, isTest) {
				found.read(t, path, file)
			}
		}
		return nil
	}))
	return found
}

func (s says) read(t *testing.T, path string, file *ast.File) {
	t.Helper()
	assigned := map[string][]string{} // the texts that a variable gets, by its name
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && len(n.Rhs) == len(n.Lhs) {
					assigned[name.Name] = append(assigned[name.Name], literals(n.Rhs[i])...)
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				if !strings.Contains(path, "/internal/") && strings.HasPrefix(name.Name, "Err") {
					s.errors[file.Name.Name+"."+name.Name] = path
				}
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			if of := lastName(fun.X); fun.Sel.Name == "Error" && (of == "cfg" || of == "redis") {
				return true // pipeline.Config's function and redigo's type
			}
			name = fun.Sel.Name
		case *ast.Ident:
			name = fun.Name
		}
		switch name {
		case "Debug", "Info", "Warn", "Error", "logLine", "logSometimes":
			message := call.Args[0]
			if name == "logLine" { // of a node, after its level
				message = call.Args[1]
			}
			texts := literals(message)
			if variable, ok := message.(*ast.Ident); ok {
				texts = assigned[variable.Name]
			}
			testkit.Check(t, len(texts) != 0, "%s: a log message that this test cannot read", path)
			for _, text := range texts {
				s.lines[strings.TrimPrefix(text, "quorumlock: ")] = path
			}
		case "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "LogAttrs":
			t.Errorf("%s: %s: a call that this test cannot read", path, name)
		}
		return true
	})
}

func lastName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
}

// literals returns the text of a string literal.
func literals(of ast.Expr) []string {
	if literal, ok := of.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if text, err := strconv.Unquote(literal.Value); err == nil {
			return []string{text}
		}
	}
	return nil
}

// firstCells returns the first cell of each row of the table below that heading.
func firstCells(t *testing.T, text, heading string) (cells []string) {
	t.Helper()
	_, text, found := strings.Cut(text, "\n"+heading+"\n")
	_, text, ok := strings.Cut(text, "\n|---")
	testkit.Require(t, found && ok, "no table below %q", heading)
	for line := range strings.Lines(text) {
		cell, isRow := strings.CutPrefix(line, "| ")
		if isRow {
			cell, rest, _ := strings.Cut(cell, " | ")
			cells = append(cells, cell)
			testkit.Check(t, strings.Count(rest, " | ") == 1 && !strings.HasSuffix(strings.TrimSpace(rest), "| |"),
				"%q: want a meaning, and what to do", cell)
		} else if len(cells) > 0 {
			break
		}
	}
	return cells
}

// compare fails the test unless the tables have what the code says, and nothing else.
func compare(t *testing.T, what string, code map[string]string, documented []string) {
	t.Helper()
	testkit.Require(t, len(code) != 0 && len(documented) != 0,
		"%s: %d in the code, %d in the table", what, len(code), len(documented))
	for _, text := range slices.Sorted(maps.Keys(code)) {
		testkit.Check(t, slices.Contains(documented, text), "%s of %s is not in docs/messages.md: %q", what, code[text], text)
	}
	for _, text := range documented {
		testkit.Check(t, code[text] != "", "%s in docs/messages.md that no code has: %q", what, text)
	}
}

// Each line of the log, each error and each code of the servers' that the library tells apart is in
// docs/messages.md, with what to do.
func TestMessagesHaveEveryLineAndError(t *testing.T) {
	text, code := testkit.Read(t, "../docs/messages.md"), whatTheCodeSays(t)
	compare(t, "a log line", code.lines, firstCells(t, text, "## Logs"))

	var sentinels, codes []string
	for _, cell := range firstCells(t, text, "## Errors") {
		for one := range strings.SplitSeq(cell, ", ") {
			one = strings.Trim(one, "`")
			if strings.Contains(one, ".Err") {
				sentinels = append(sentinels, one)
			} else {
				codes = append(codes, one)
			}
		}
	}
	compare(t, "an error", code.errors, sentinels)
	known := map[string]string{}
	replies := "../internal/redisconn/replies.go"
	for _, row := range regexp.MustCompile(`(?m)^\t\{"([^"]+)", `).FindAllStringSubmatch(testkit.Read(t, replies), -1) {
		known[row[1]] = replies
	}
	compare(t, "a server's code", known, codes)
}
