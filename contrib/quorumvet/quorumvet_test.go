package quorumvet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

const repository = "../.."

// The code in testdata is checked against this repository's packages. They are no requirement of the module: with the
// replace line that this takes, go install refuses it.
func TestReports(t *testing.T) {
	module := t.TempDir()
	if err := os.CopyFS(module, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	requires := strings.Replace(read(t, "go.mod"), "module github.com/quorumlock/quorumlock", "module example.com/user", 1)
	write(t, filepath.Join(module, "go.mod"), requires+"\nrequire github.com/quorumlock/quorumlock v0.0.0\n"+
		"replace github.com/quorumlock/quorumlock => "+filepath.ToSlash(root)+"\n")
	write(t, filepath.Join(module, "go.sum"), read(t, "go.sum"))
	tests := newAnalyzer()
	if err := tests.Flags.Set("tests", "true"); err != nil {
		t.Fatal(err)
	}
	each := *Analyzer
	each.Run = func(pass *analysis.Pass) (any, error) {
		if pass.Pkg.Name() == "tests" {
			return tests.Run(pass)
		}
		return Analyzer.Run(pass)
	}
	analysistest.Run(t, module, &each, "./...")
}

func TestMayHaveAnyContext(t *testing.T) {
	for name, may := range map[string]bool{
		"(go.opentelemetry.io/otel/metric.Int64Counter).Add": true,
		"github.com/rs/zerolog.Ctx":                          true,
		"(*log/slog.Logger).InfoContext":                     true,
		"(github.com/jackc/pgx/v5.Tx).Rollback":              true,
		"(github.com/jackc/pgx/v5.Tx).Commit":                false,
		"os/exec.CommandContext":                             false,
	} {
		if got := inDo.MatchString(name); got != may {
			t.Errorf("%s may have any context: %v", name, got)
		}
	}
}

// The examples, and what the library ships, are what users copy: nothing is reported there.
func TestNothingInThisRepository(t *testing.T) {
	command := filepath.Join(t.TempDir(), "quorumvet")
	run(t, ".", "build", "-o", command, "./cmd/quorumvet")
	run(t, repository, "vet", "-vettool="+command, "./...")
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
