package promquorumlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/quorumlock/quorumlock/contrib/promquorumlock"
	"github.com/quorumlock/quorumlock/internal/metrics"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// The packages' tables have each metric, and no document has another.
func TestDocumentsNameEachMetric(t *testing.T) {
	prometheusNames := func(m *metrics.Metric) string { return m.PrometheusName() }
	for path, name := range map[string]func(*metrics.Metric) string{
		"doc.go": prometheusNames, "../../docs/operations.md": prometheusNames,
		"../otelquorumlock/doc.go": func(m *metrics.Metric) string { return m.Name },
	} {
		text := testkit.Read(t, path)
		var known []string
		for _, m := range metrics.All() {
			known = append(known, name(m))
			named := regexp.MustCompile("[\\s`]" + regexp.QuoteMeta(name(m)) + "[\\s`]").MatchString(text)
			testkit.Check(t, !strings.HasSuffix(path, ".go") || named, "%s does not name %s", path, name(m))
		}
		for _, found := range regexp.MustCompile(`(?m)(?:^//\t|`+"`"+`)(quorumlock[._][a-z._]+)`).FindAllStringSubmatch(text, -1) {
			testkit.Check(t, slices.Contains(known, found[1]), "%s names %s, which is not measured", path, found[1])
		}
	}
}

// The package's comment names each outcome and each vote, and each count of an attempt is a vote.
func TestDocumentNamesEachOutcomeAndVote(t *testing.T) {
	_, lists, _ := strings.Cut(testkit.Read(t, "doc.go"), "An outcome is ")
	l := testkit.Opened(redlock.Open([]string{"redis://127.0.0.1:1"}))(t)
	for outcome := range l.Stats().Attempts {
		testkit.Check(t, strings.Contains(lists, outcome), "doc.go does not name the outcome %s", outcome)
	}
	e, counts, votes := quorum.AttemptEvent{Names: []string{"a"}}, -1, 0 // without WriteBacks
	for i := range reflect.TypeOf(e).NumField() {
		if v := reflect.ValueOf(&e).Elem().Field(i); v.Kind() == reflect.Int {
			v.SetInt(1)
			counts++
		}
	}
	metrics.NewFeed(func(_ context.Context, m *metrics.Metric, _ float64, labels ...string) {
		if m == metrics.Votes && strings.Contains(lists, labels[0]) && strings.Contains(m.Help, labels[0]) {
			votes++
		}
	}, nil).Hooks().Attempt(ctx, e)
	testkit.Check(t, votes == counts,
		"of %d counts %d are counted and documented: see internal/metrics, doc.go", counts, votes)
}

// Each metric is collected from a Locker that has locked, renewed and lost, under names that promlint
// accepts, and none has the name of a lock.
func TestEachMetricIsCollected(t *testing.T) {
	fleet := standin.ForTest(t, 3)
	m := promquorumlock.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	l := testkit.Opened(redlock.Open(fleet.URLs(), quorum.WithHooks(m.Hooks()), quorum.WithLease(3*time.Second),
		quorum.WithNodeOptions(node.WithHooks(m.NodeHooks()), node.WithoutQuarantine(), node.WithTimeout(5*time.Second))))(t)
	stop := m.Observe("it", l)

	lock := testkit.Got(l.Lock(ctx, "secret:1"))(t)
	begun := promquorumlock.New()
	begun.Hooks().Acquired(lock)
	for _, d := range metrics.All() {
		named := len(d.Labels) > 0 && d.Labels[0] != "quorumlock.group" // by what is known later
		testkit.Check(t, d.Kind != metrics.Counter || named || testutil.CollectAndCount(begun, d.PrometheusName()) != 0,
			"%s begins with its first event, so its rate misses that: see Acquired in internal/metrics/hooks.go", d.Name)
	}
	short := testkit.Got(l.With(quorum.WithFixedLease(50*time.Millisecond)).Lock(ctx, "secret:2"))(t)
	<-short.Context().Done()
	missing := func() (names []string) {
		for _, d := range metrics.All() {
			if n, err := testutil.GatherAndCount(registry, d.PrometheusName()); err != nil || n == 0 {
				names = append(names, d.PrometheusName())
			}
		}
		return names
	}
	defer func() {
		testkit.Check(t, !t.Failed(),
			"nothing is collected of %v: see internal/metrics/hooks.go, and what happens in this test", missing())
	}()
	testkit.Eventually(t, "renewed and lost", func() bool { return len(missing()) <= 1 && value(t, registry, metrics.Losses) == 1 })
	must(t, fleet.Masters[0].Kill())
	must(t, fleet.Masters[0].Start())
	testkit.Eventually(t, "repaired", func() bool { return len(missing()) == 0 })
	must(t, lock.Unlock(ctx))
	testkit.Equal(t, value(t, registry, metrics.Releases), 1, "locks released")

	problems := testkit.Got(testutil.GatherAndLint(registry))(t)
	for _, p := range problems {
		t.Errorf("promlint: %s: %s", p.Metric, p.Text)
	}
	families := testkit.Got(registry.Gather())(t)
	for _, f := range families {
		testkit.Check(t, !strings.Contains(f.String(), "secret"), "%s has the name of a lock", f.GetName())
	}
	stop()
	n, err := testutil.GatherAndCount(registry, metrics.Held.PrometheusName())
	testkit.Check(t, err == nil && n == 0, "after stop %d Lockers are observed: %v", n, err)
}

// value returns the value of a counter with one series.
func value(t *testing.T, from prometheus.Gatherer, d *metrics.Metric) float64 {
	t.Helper()
	families := testkit.Got(from.Gather())(t)
	for _, f := range families {
		if f.GetName() == d.PrometheusName() {
			return f.Metric[0].Counter.GetValue()
		}
	}
	return 0
}

var ctx = context.Background()

func TestMain(m *testing.M) { testkit.Main(m) }

var must = testkit.Must

// Names are any bytes, and a label is UTF-8: client_golang panics in the caller of TryLock otherwise.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"invoice:42", "\xff:1", "/run/\xfe.sock"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m := promquorumlock.New(promquorumlock.WithGroup(func(name string) string { return name }))
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		if l, err := redlock.Open([]string{"redis://127.0.0.1:1?name=" + url.QueryEscape(name)}); err == nil {
			defer l.Close()
			m.Observe(name, l)
			m.Observe(name+"\xfe", l) // not the same
		}
		m.Hooks().LockEnd(ctx, quorum.LockEvent{Names: []string{name}})
		m.Hooks().Renewed(quorum.RenewalEvent{Node: name, Renewed: 1})
		m.NodeHooks().StateChanged(node.StateEvent{Node: name})
		m.NodeHooks().ScriptEnded(node.ScriptEvent{Address: name})
		testkit.Got(registry.Gather())(t)
	})
}

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
