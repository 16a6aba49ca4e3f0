package quorumlock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every block of Go code in the documents stands, line by line, in a test or an example, which compiles and
// runs; the list of the interface in design.md stands in the packages.
func TestDocumentsQuoteCodeThatRuns(t *testing.T) {
	tests, sources := goCode(t)
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range goBlocks.FindAllStringSubmatch(string(text), -1) {
			blocks++
			if strings.HasPrefix(block[1], "package ") {
				for _, line := range missingFunctions(block[1], sources) {
					t.Errorf("%s lists a function that is not there: %s", document, line)
				}
				continue
			}
			if quoted := plain(block[1]); !strings.Contains(tests, quoted) {
				t.Errorf("%s: this code is in no test:\n%s\nFrom here on it differs: %s",
					document, block[1], firstDifference(quoted, tests))
			}
		}
	}
	if blocks < 20 {
		t.Errorf("only %d blocks of Go code: does the test find them?", blocks)
	}
}

var goBlocks = regexp.MustCompile("(?s)```go\n(.*?)```")

// goCode returns the plain lines of all tests, and those of the packages that are not internal.
func goCode(t *testing.T) (tests, sources string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || path == "docs_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			tests += plain(string(text))
		} else {
			sources += plain(string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, sources
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

var receiver = regexp.MustCompile(`^func \([a-z]+ `)

// missingFunctions returns the functions of a list that the sources do not have.
func missingFunctions(list, sources string) (missing []string) {
	all := map[string]bool{}
	for line := range strings.Lines(strings.ReplaceAll(sources, " (err error)", " error")) {
		signature, _, _ := strings.Cut(line, " {")
		all[receiver.ReplaceAllString(strings.TrimSpace(signature), "func (")] = true
	}
	for line := range strings.Lines(list) {
		code, _, _ := strings.Cut(line, "//")
		if code = strings.TrimSpace(code); strings.HasPrefix(code, "func ") && !all[code] {
			missing = append(missing, code)
		}
	}
	return missing
}
