package quorumlock_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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
	documents := testkit.Got(filepath.Glob("docs/*.md"))(t)
	blocks := 0
	for _, document := range append(documents, "README.md") {
		text := testkit.Got(os.ReadFile(document))(t)
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
	reports := testkit.Got(filepath.Glob("docs/reports/*.md"))(t)
	table := testkit.Got(os.ReadFile("docs/reports/README.md"))(t)
	rows := 0
	for _, path := range reports {
		text := testkit.Got(os.ReadFile(path))(t)
		if head := ran.FindStringSubmatch(string(text)); head != nil {
			rows++
			row := fmt.Sprintf("| [%s](%[1]s) | %s | %s |", filepath.Base(path), head[1], head[2])
			testkit.Check(t, strings.Contains(string(table), row), "the table lacks %q", row)
		}
	}
	testkit.Check(t, rows >= 3, "%d reports have a date", rows)
}

// What make soak prints becomes a row for each command, in the place of its last one, and one that failed is an error.
func TestTheReportOfASoak(t *testing.T) {
	printed := "GOGC=400 go test -timeout 90m ./sim -sim.seeds=20000\n" +
		"    search_test.go:1: 20 states, 40 transitions, depth 3, 1ms: bounded\n    search_test.go:1: 7 states, 9 transitions, depth 2, 1ms: \n" +
		"ok  \tsim\t119.1s\n" +
		"go test ./chaos\n    --- PASS: TestChaos/a_walk (5.2s)\n        --- PASS: TestChaos/a_walk/3 (2.6s)\n        --- PASS: TestChaos/a_walk/5 (2.6s)\n" +
		"nice -n 19 go run ./internal/mutants -for 90m\n| a.go | 3 | 1 | 2 | 0 | 5 |\n"
	old := filepath.Join(t.TempDir(), "soak.md")
	mutants := "| `go run ./internal/mutants -for 90m` | "
	testkit.Must(t, os.WriteFile(old, []byte("# Soak\n\n"+mutants+"passed | 5 min | 1 | 2 |\n| `b` | passed | - | 1 | 2 |\n"), 0o600))
	interpreter := "awk"
	if _, err := exec.LookPath("mawk"); err == nil {
		interpreter = "mawk" // stricter than gawk, and Debian's awk until something installs gawk
	}
	report := func(printed string) (rows string, err error) {
		awk := exec.Command(interpreter, "-f", "docs/soak.awk", "-v", "revision=abc", "-v", "date=today", "-v", "old="+old)
		awk.Stdin = strings.NewReader(printed)
		all, err := awk.Output()
		_, rows, _ = strings.Cut(string(all), "|---|---|---|---|---|\n")
		return rows, err
	}
	other := "| `b` | passed | - | 1 | 2 |\n" +
		"| `go test ./sim -sim.seeds=20000` | 2 searches with 27 states, the largest with 20; 1 of them stopped at their bound | 2 min | abc | today |\n" +
		"| `go test ./chaos` | 2 scenarios passed | - | abc | today |\n"
	rows := testkit.Got(report(printed))(t)
	testkit.Equal(t, rows, mutants+"4 mutants noticed, 1 of them by time; 2 not noticed; 5 not run | - | abc | today |\n"+other, "rows")
	rows, err := report(printed + "make: *** [Makefile:1: soak-mutants] Error 1\n")
	testkit.Check(t, err != nil && strings.Contains(rows, "| **failed** 4 mutants"), "%v\n%s", err, rows)
}
