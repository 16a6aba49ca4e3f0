package quorumlock_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
)

func TestMain(m *testing.M) {
	world.OneProcessor()
	os.Exit(m.Run())
}

// Every block of Go code in the documents stands, line by line, in a test or an example, which compiles and
// runs.
func TestDocumentsQuoteCodeThatRuns(t *testing.T) {
	tests := testCode(t)
	documents, err := filepath.Glob("docs/*.md")
	testkit.Must(t, err)
	blocks := 0
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		testkit.Must(t, err)
		for _, block := range goBlocks.FindAllStringSubmatch(string(text), -1) {
			blocks++
			if quoted := plain(block[1]); !strings.Contains(tests, quoted) {
				t.Errorf("%s: this code is in no test:\n%s\nFrom here on it differs: %s",
					document, block[1], firstDifference(quoted, tests))
			}
		}
	}
	testkit.Check(t, blocks >= 20, "only %d blocks of Go code: does the test find them?", blocks)
}

var goBlocks = regexp.MustCompile("(?s)```go\n(.*?)```")

// testCode returns the plain lines of all tests.
func testCode(t *testing.T) (tests string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || path == "docs_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		tests += plain(string(text))
		return err
	})
	testkit.Must(t, err)
	return tests
}

// plain returns the lines of code without their indentation, and without empty ones.
func plain(code string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// firstDifference returns the line at which the code stops being in the tests.
func firstDifference(code, tests string) string {
	for end := len(code); ; {
		end = strings.LastIndexByte(code[:end-1], '\n') + 1
		if end == 1 || strings.Contains(tests, code[:end]) {
			line, _, _ := strings.Cut(code[end:], "\n")
			return line
		}
	}
}

// The README's timeline fits a terminal, and a page beside others.
func TestTheTimelineIsNarrow(t *testing.T) {
	lines := 0
	for line := range strings.Lines(testkit.Read(t, "README.md")) {
		if strings.HasPrefix(line, "    ") {
			lines++
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			testkit.Check(t, n <= 80, "%d columns: %s", n, line)
		}
	}
	testkit.Check(t, lines > 5, "only %d lines: does the test find them?", lines)
}

var ran = regexp.MustCompile(`\n- (\d{4}-\d\d-\d\d) \d\d:\d\d UTC; quorumlock ([^;]+);`)

// The table of reports has the date and the commit of each.
func TestTheTableOfReports(t *testing.T) {
	reports, err := filepath.Glob("docs/reports/*.md")
	testkit.Must(t, err)
	table, err := os.ReadFile("docs/reports/README.md")
	testkit.Must(t, err)
	rows := 0
	for _, path := range reports {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		if head := ran.FindStringSubmatch(string(text)); head != nil {
			rows++
			row := fmt.Sprintf("| [%s](%[1]s) | %s | %s |", filepath.Base(path), head[1], head[2])
			testkit.Check(t, strings.Contains(string(table), row), "the table lacks %q", row)
		}
	}
	testkit.Check(t, rows >= 3, "%d reports have a date", rows)
}
