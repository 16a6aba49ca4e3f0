package quorumlock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link in the documents that stays in the repository leads to a file, and to a heading if it has a fragment.
func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	links := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		for _, link := range localLinks.FindAllStringSubmatch(withoutCode(t, path), -1) {
			links++
			target, fragment, _ := strings.Cut(link[1], "#")
			if target = filepath.Join(filepath.Dir(path), target); strings.HasPrefix(link[1], "#") {
				target = path
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: no such file: %s", path, link[1])
			} else if fragment != "" && !anchors(t, target)[fragment] {
				t.Errorf("%s: no such heading: %s", path, link[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 100 {
		t.Errorf("only %d links: does the test find them?", links)
	}
}

var (
	localLinks = regexp.MustCompile(`\]\(([^):\s]+)\)`)
	codeBlocks = regexp.MustCompile("(?ms)^```.*?^```$")
	headings   = regexp.MustCompile(`(?m)^#+ (.*)$|<a id="(.*?)">`)
	punctuated = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func withoutCode(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return codeBlocks.ReplaceAllString(string(text), "")
}

// anchors returns the fragments of a document's headings, as GitHub makes them.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, heading := range headings.FindAllStringSubmatch(withoutCode(t, path), -1) {
		words := punctuated.ReplaceAllString(strings.ToLower(heading[1]), "")
		found[strings.ReplaceAll(words, " ", "-")] = true
		found[heading[2]] = true
	}
	return found
}
