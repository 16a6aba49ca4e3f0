package quorumlock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

var (
	links    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	// Scenarios are named in quotes, or by a pattern of go test, whose bars are \| in a table.
	scenarioNames = regexp.MustCompile(`chaos ((?:"[^"]+",? ?)+)|TestChaos/\(?([^)'/]+)`)
	paths         = regexp.MustCompile("`([a-z]\\w*/[\\w/]+(?:\\.\\w+)?)`")
	comments      = regexp.MustCompile(`(?m)^\s*//.*`)
	goFiles       = regexp.MustCompile(`\b[a-z]\w*(?:/\w+)*\.go\b`)
	noLetter      = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Every link in the documents leads to a file, and to a heading in it. Every test and every scenario that they or the Makefile
// name exists, and so does each path in design.md. The module's comment names every module of contrib/.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	tests := testCode(t)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" && path != "Makefile" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, names := range scenarioNames.FindAllStringSubmatch(strings.Join(strings.Fields(string(text)), " "), -1) {
			for name := range strings.FieldsFuncSeq(names[1]+names[2], func(r rune) bool { return strings.ContainsRune(`"|\`, r) }) {
				if name = strings.ReplaceAll(strings.Trim(name, ", "), "_", " "); !strings.Contains(tests, `{name: "`+name) {
					t.Errorf("%s names the scenario %q, which does not exist", path, name)
				}
			}
		}
		for _, link := range links.FindAllStringSubmatch(string(text), -1) {
			problem := brokenLink(path, link[1])
			testkit.Check(t, problem == "", "%s: %s: %s", path, link[1], problem)
		}
		for _, name := range testName.FindAllStringSubmatch(string(text), -1) {
			testkit.Check(t, strings.Contains(tests, "\nfunc "+name[1]+"("), "%s names the test %s, which does not exist", path, name[1])
		}
		return err
	})
	testkit.Must(t, err)
	design := testkit.Got(os.ReadFile("docs/design.md"))(t)
	for _, path := range paths.FindAllStringSubmatch(string(design), -1) {
		_, err := os.Stat(path[1])
		testkit.Check(t, err == nil, "docs/design.md names what does not exist: %v", err)
	}
	comment := testkit.Got(os.ReadFile("doc.go"))(t)
	modules, _ := filepath.Glob("contrib/*/go.mod")
	for _, module := range modules {
		testkit.Check(t, strings.Contains(string(comment), "/"+filepath.Dir(module)+"]"), "doc.go does not name %s", module)
	}
}

// A file that a comment in Go names is there: next to the comment, or at that path.
func TestCommentsNameFilesThatExist(t *testing.T) {
	testkit.Must(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		for _, comment := range comments.FindAllString(testkit.Read(t, path), -1) {
			for _, named := range goFiles.FindAllString(comment, -1) {
				_, beside := os.Stat(filepath.Join(filepath.Dir(path), named))
				_, err := os.Stat(named)
				testkit.Check(t, err == nil || beside == nil, "%s: there is no %s", path, named)
			}
		}
		return nil
	}))
}

// A package that makes a lock by a rule of its own, as redlock does, is named where redlock and multilock are.
func TestEachRuleHasItsPlaces(t *testing.T) {
	files := testkit.Got(filepath.Glob("*/*.go"))(t)
	packages := 0
	for _, file := range files {
		if text, _ := os.ReadFile(file); !strings.Contains(string(text), "\n\treturn quorum.New(nodes, ") {
			continue
		}
		packages++
		for _, place := range []string{"README.md", "Makefile", "doc.go", "node/node.go", "quorum/doc.go", "docs/from-redisson.md",
			"docs/design.md", "cmd/quorumlock/internal/locks/top.go", "cmd/quorumlock/internal/locks/unlock.go",
			"cmd/quorumlock/internal/run/lock.go", "contrib/otelquorumlock/otelquorumlock.go", "contrib/promquorumlock/promquorumlock.go",
			"integration/acl_test.go", "integration/helpers_test.go", "quorumtest/quorumtest_test.go"} {
			text := testkit.Got(os.ReadFile(place))(t)
			testkit.Check(t, strings.Contains(string(text), filepath.Dir(file)), "%s does not name %s", place, filepath.Dir(file))
		}
	}
	testkit.Check(t, packages >= 2, "only %d packages with a rule: does this test find them?", packages)
}

// brokenLink returns what is wrong with a link in a document; empty for nothing, or a link to elsewhere.
func brokenLink(document, link string) string {
	if strings.Contains(link, "://") {
		return ""
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := filepath.Join(filepath.Dir(document), file)
	if file == "" {
		target = document
	}
	if _, err := os.Stat(target); err != nil {
		return "no such file"
	}
	if anchor == "" {
		return ""
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err.Error()
	}
	if strings.Contains(string(text), `<a id="`+anchor+`">`) {
		return ""
	}
	for _, heading := range headings.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(heading[1]) == anchor {
			return ""
		}
	}
	return "no such heading"
}

// anchorOf returns the anchor that GitHub gives to a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(noLetter.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
