package promquorumlock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/metrics"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// promtool runs Prometheus' tool, or skips the test.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("SKIPPED, needs promtool (apt-get install prometheus): %v", err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	testkit.Check(t, err == nil, "%v:\n%s", err, out)
}

// promtool plays each rule with and without its fault, with the durations that the file has.
func TestAlertRules(t *testing.T) { promtool(t, "test", "rules", "testdata/alerts_test.yml") }

// The alerts and the dashboard read metrics and labels that there are, in queries that Prometheus understands.
func TestAlertsAndDashboardReadWhatIsMeasured(t *testing.T) {
	alerts := testkit.Read(t, "../../docs/alerts.yml")
	text := testkit.Read(t, "../../docs/grafana/quorumlock.json")
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal([]byte(text), &board))
	rules, queries := "groups: [{name: dashboard, rules: [\n", ""
	for _, p := range board.Panels {
		for i, target := range p.Targets {
			rules += fmt.Sprintf("  {record: q%d, expr: %q},\n", i, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			queries += target.Expr + "\n"
		}
	}
	known := map[string]bool{}
	for _, m := range metrics.All() {
		for _, suffix := range []string{"", "_bucket", "_count"} {
			known[m.PrometheusName()+suffix] = suffix == "" || m.Kind == metrics.Histogram
		}
		for _, label := range m.Labels {
			known[strings.ReplaceAll(label, ".", "_")] = true
		}
	}
	read := regexp.MustCompile(`\b(quorumlock|db|server|error)_\w+`).FindAllString(alerts+queries, -1)
	for _, name := range read {
		testkit.Check(t, known[name], "%s is read, and not measured", name)
	}
	testkit.Check(t, len(board.Panels) == 10 && len(read) >= 50,
		"%d panels; %d names in all queries", len(board.Panels), len(read))
	file := filepath.Join(t.TempDir(), "rules.yml")
	must(t, os.WriteFile(file, []byte(rules+"]}]\n"), 0o600))
	promtool(t, "check", "rules", file, "../../docs/alerts.yml")
}
