package quorumvet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

const repository = "../.."

// The code in testdata gets the reports that it names. It is checked as packages of the root's module, for which an overlay
// takes this module's go.mod away.
func TestReports(t *testing.T) {
	dir, err := filepath.Abs(repository)
	must(t, err)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, "contrib/quorumvet/go.mod"): ""}})
	must(t, err)
	must(t, os.WriteFile(overlay, text, 0o600))
	var packages []string
	all, err := os.ReadDir("testdata")
	must(t, err)
	for _, entry := range all {
		packages = append(packages, "./contrib/quorumvet/testdata/"+entry.Name())
	}
	// The command first: it may load modules, and analysistest does not.
	out, err := vet(t, append([]string{"-overlay=" + overlay}, packages...)...)
	if err == nil || strings.Count(out, "stamp first") != 4 {
		t.Errorf("the command under go vet: %v\n%s", err, out)
	}
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -overlay="+overlay)
	analysistest.Run(t, dir, Analyzer, packages...)
}

// The examples, and what the library ships, are what users copy: they get no report.
func TestTheLibrary(t *testing.T) {
	if out, err := vet(t, "./..."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// vet returns what go vet prints.
func vet(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := filepath.Join(t.TempDir(), "quorumvet")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "./cmd/quorumvet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"vet", "-vettool=" + command}, args...)...)
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	return string(out), err
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
