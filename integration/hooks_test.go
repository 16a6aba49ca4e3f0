package integration_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock/contrib/otelquorumlock"
	"github.com/quorumlock/quorumlock/contrib/promquorumlock"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Prometheus, OpenTelemetry and hooks of one's own measure a Locker side by side, with their options as they are.
func TestMeasuredByAll(t *testing.T) {
	t.Parallel()
	f := standin.ForTest(t, 3)
	prom, registry := promquorumlock.New(), prometheus.NewRegistry()
	must(t, registry.Register(prom))
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	otel := testkit.Opened(otelquorumlock.New(otelquorumlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))),
		otelquorumlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))))(t)
	var mine, byWith atomic.Int64
	counts := func(n *atomic.Int64) quorum.Option {
		return quorum.WithHooks(quorum.Hooks{Acquired: func(*quorum.Lock) { n.Add(1) }})
	}
	l := open(t, f, redlock.Open, slices.Concat(prom.Options(), otel.Options(), []quorum.Option{counts(&mine)})...)
	for _, l := range []*quorum.Locker{l, l, l.With(counts(&byWith))} {
		unlock(t, lock(t, l, "a"))
	}
	must(t, l.Close()) // the nodes' hooks have run

	byProm := func(name string) (count uint64) {
		families := testkit.Got(registry.Gather())(t)
		for _, family := range families {
			for _, one := range family.Metric {
				if family.GetName() == name {
					count += one.Histogram.GetSampleCount()
				}
			}
		}
		return count
	}
	byOtel := func(name string) (count uint64) {
		var all metricdata.ResourceMetrics
		must(t, reader.Collect(t.Context(), &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
					for _, p := range h.DataPoints {
						count += p.Count
					}
				}
			}
		}
		return count
	}
	for _, name := range []string{"quorumlock.lock.wait.duration", "db.client.operation.duration"} {
		p, o := byProm(strings.ReplaceAll(name, ".", "_")+"_seconds"), byOtel(name)
		testkit.Check(t, p == o && p >= 3, "%s: Prometheus has %d, OpenTelemetry %d", name, p, o)
	}
	testkit.Equal(t, byProm("quorumlock_lock_wait_duration_seconds"), 3, "calls that Prometheus has")
	testkit.Equal(t, len(spans.GetSpans()), 3, "spans")
	testkit.Check(t, mine.Load() == 3 && byWith.Load() == 1, "the Locker's hooks have %d locks, and the hooks of With %d", mine.Load(), byWith.Load())
}
