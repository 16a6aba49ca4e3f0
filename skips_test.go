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

// A test that is skipped says why.
func TestSkipsHaveReasons(t *testing.T) {
	silent, skip := regexp.MustCompile(`\.(SkipNow\(|Skipf?\( *\))`), regexp.MustCompile(`\.Skipf?\(`)
	skips := 0
	testkit.Must(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || path == "skips_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, call := range silent.FindAll(text, -1) {
			t.Errorf("%s: %s: a skip without a reason", path, call)
		}
		skips += len(skip.FindAll(text, -1))
		return err
	}))
	testkit.Check(t, skips >= 10, "only %d skips: does this test see them?", skips)
}
