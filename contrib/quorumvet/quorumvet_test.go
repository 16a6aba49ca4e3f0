package quorumvet

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// The code in testdata is checked as packages of the root's module, for which an overlay takes this module's go.mod away. It
// gets the reports that it names, each in the line of the comment, or with +1 in the next. The examples, and what the library
// ships, are what users copy: they get none.
func TestReports(t *testing.T) {
	root, err := filepath.Abs(repository)
	must(t, err)
	packages := []string{"-overlay=" + filepath.Join(t.TempDir(), "overlay.json")}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "contrib/quorumvet/go.mod"): ""}})
	must(t, err)
	must(t, os.WriteFile(strings.TrimPrefix(packages[0], "-overlay="), text, 0o600))
	wanted := map[string][]*regexp.Regexp{} // by file and line
	must(t, filepath.WalkDir("testdata", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if in := "./contrib/quorumvet/" + filepath.Dir(path); !slices.Contains(packages, in) {
			packages = append(packages, in)
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if want := wants.FindStringSubmatch(line); want != nil {
				at := fmt.Sprintf("%s:%d", path, i+1+len(want[1])/len("+1 "))
				wanted[at] = append(wanted[at], regexp.MustCompile(want[2]))
			}
		}
		return err
	}))
	command := filepath.Join(t.TempDir(), "quorumvet")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "./cmd/quorumvet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := vet(t, root, command, "./...") + vet(t, root, command, packages...)
	for line := range strings.Lines(out) {
		report := reports.FindStringSubmatch(line)
		if report == nil {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("go vet says: %s", line)
			}
			continue
		}
		_, at, _ := strings.Cut(report[1], "contrib/quorumvet/")
		i := slices.IndexFunc(wanted[at], func(want *regexp.Regexp) bool { return want.MatchString(report[2]) })
		if i < 0 {
			t.Errorf("%s: not wanted: %s", report[1], report[2])
			continue
		}
		wanted[at] = slices.Delete(wanted[at], i, i+1)
	}
	for at, missing := range wanted {
		for _, want := range missing {
			t.Errorf("%s: no report of %s", at, want)
		}
	}
}

var (
	wants   = regexp.MustCompile("// want (\\+1 )?`([^`]+)`")
	reports = regexp.MustCompile(`^(\S+\.go:\d+):\d+: (.*)`)
)

// vet returns what go vet prints, whether it has reports or none.
func vet(t *testing.T, dir, command string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"vet", "-vettool=" + command}, args...)...)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMayHaveAnyContext(t *testing.T) {
	for name, may := range map[string]bool{
		"(go.opentelemetry.io/otel/metric.Int64Counter).Add": true,
		"github.com/rs/zerolog.Ctx":                          true,
		"(*log/slog.Logger).InfoContext":                     true,
		"(example.org/app/logger.Logger).Info":               true,
		"(example.org/app/catalog.Store).Save":               false,
		"(github.com/jackc/pgx/v5.Tx).Rollback":              true,
		"(github.com/jackc/pgx/v5.Tx).Commit":                false,
		"os/exec.CommandContext":                             false,
	} {
		if got := inDo.MatchString(name); got != may {
			t.Errorf("%s may have any context: %v", name, got)
		}
	}
}
