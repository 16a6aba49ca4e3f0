// Package spec has the protocol as a specification for Spin, which run.sh searches.
package spec

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// With all rules Spin finds no trace, and one without any of them. make soak searches more. The test imports nothing of this
// repository, so go test caches its result until the specification changes.
func TestSpin(t *testing.T) {
	for _, program := range []string{"spin", cmp.Or(os.Getenv("CC"), "cc")} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: make tools installs Spin, which needs a C compiler", err)
		}
	}
	// What a test has read decides whether its result is in go test's cache.
	model, script := read(t, "quorumlock.pml"), read(t, "run.sh")
	rules := regexp.MustCompile(`(?m)^#define (\w+) +\d+ /\* (?:\d\.\d|\w+\.md)`).FindAllStringSubmatch(model, -1)
	testkit.Check(t, len(rules) >= 12, "only %d rules: does this test see them?", len(rules))
	for _, rule := range rules {
		testkit.Check(t, strings.Contains(script, " "+rule[1]+" "), "run.sh never leaves out %s", rule[1])
	}
	printed, err := exec.Command("sh", "run.sh", "small").CombinedOutput()
	t.Log(string(printed))
	testkit.Check(t, err == nil, "run.sh: %v", err)
	testkit.Check(t, strings.Contains(string(printed), "all rules: no trace"), "nothing was searched with all rules")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	testkit.Must(t, err)
	return string(text)
}
