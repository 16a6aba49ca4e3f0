package otelquorumlock

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock/internal/metrics"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var must = testkit.Must

// fixture is a Locker on three masters, and what it has told.
type fixture struct {
	locker  *quorum.Locker
	masters []*redistest.Master
	reader  *metric.ManualReader
	spans   *tracetest.InMemoryExporter
	opts    []quorum.Option
	urls    []string
}

func start(t *testing.T) *fixture {
	t.Helper()
	fleet := standin.ForTest(t, 3)
	f := &fixture{masters: fleet.Masters, reader: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	tel := testkit.Opened(New(
		WithMeterProvider(metric.NewMeterProvider(metric.WithReader(f.reader))),
		WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(f.spans))),
		WithGroup(func(name string) string { kind, _, _ := strings.Cut(name, ":"); return kind })))(t)
	f.opts = []quorum.Option{quorum.WithLease(3 * time.Second), quorum.WithHooks(tel.Hooks()),
		quorum.WithNodeOptions(node.WithHooks(tel.NodeHooks()), node.WithoutQuarantine(), node.WithTimeout(5*time.Second))}
	f.urls = fleet.URLs()
	f.locker = f.open(t)
	tel.Observe("it", f.locker)
	return f
}

func (f *fixture) open(t *testing.T) *quorum.Locker {
	t.Helper()
	return testkit.Opened(redlock.Open(f.urls, f.opts...))(t)
}

// read returns the metrics by name.
func (f *fixture) read(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	must(t, f.reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// sum adds up the points of a metric that have all of the attributes: of a histogram their counts.
func (f *fixture) sum(t *testing.T, name string, attributes ...attribute.KeyValue) (sum int64) {
	t.Helper()
	has := func(set attribute.Set) bool {
		return !slices.ContainsFunc(attributes, func(a attribute.KeyValue) bool {
			v, ok := set.Value(a.Key)
			return !ok || v.AsString() != a.Value.AsString()
		})
	}
	count := func(points []metricdata.DataPoint[int64]) {
		for _, p := range points {
			if has(p.Attributes) {
				sum += p.Value
			}
		}
	}
	switch data := f.read(t)[name].Data.(type) {
	case metricdata.Sum[int64]:
		count(data.DataPoints)
	case metricdata.Gauge[int64]:
		count(data.DataPoints)
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			if has(p.Attributes) {
				sum += int64(p.Count)
			}
		}
	}
	return sum
}

// Each metric of the table is told, with its unit and its attributes, and none has the name of a lock.
func TestMetrics(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	lock := testkit.Got(f.locker.Lock(ctx, "invoice:42"))(t)
	_, err := f.open(t).TryLock(ctx, "invoice:42")
	testkit.Require(t, err != nil, "two holders")
	str := attribute.String
	group := str("quorumlock.group", "invoice")
	testkit.Eventually(t, "renewed", func() bool { return f.sum(t, "quorumlock.lock.validity", group) >= 2 })
	for _, want := range []struct {
		name       string
		atLeast    int64
		attributes []attribute.KeyValue
	}{
		{"quorumlock.lock.wait.duration", 1, []attribute.KeyValue{group, str("quorumlock.outcome", "acquired")}},
		{"quorumlock.lock.wait.duration", 1, []attribute.KeyValue{group, str("quorumlock.outcome", "held")}},
		{"quorumlock.attempt.duration", 1, []attribute.KeyValue{group, str("quorumlock.outcome", "acquired")}},
		{"quorumlock.attempt.votes", 2, []attribute.KeyValue{str("quorumlock.vote", "granted")}},
		{"quorumlock.attempt.votes", 2, []attribute.KeyValue{str("quorumlock.vote", "refused")}},
		{"quorumlock.lock.renewals", 1, []attribute.KeyValue{str("quorumlock.node", f.masters[0].Addr()),
			str("quorumlock.outcome", "renewed")}},
		{"quorumlock.node.changes", 1, []attribute.KeyValue{str("quorumlock.state", "up")}},
		{"db.client.operation.duration", 2, []attribute.KeyValue{str("db.system.name", "redis"),
			str("db.operation.name", "acquire"), str("server.address", "127.0.0.1"),
			str("server.port", strings.Split(f.masters[0].Addr(), ":")[1])}},
		{"quorumlock.locks.held", 1, []attribute.KeyValue{str("quorumlock.locker", "it")}},
		{"quorumlock.nodes", 3, nil}, {"quorumlock.quorum", 2, nil}, {"quorumlock.voters", 3, nil},
		{"quorumlock.node.state", 3, []attribute.KeyValue{str("quorumlock.state", "up")}},
	} {
		testkit.Eventually(t, want.name+" is told", func() bool { return f.sum(t, want.name, want.attributes...) >= want.atLeast })
	}
	must(t, f.masters[0].Kill())
	testkit.Eventually(t, "an error is told", func() bool {
		return f.sum(t, "db.client.operation.duration", str("error.type", "connection")) >= 1
	})
	must(t, f.masters[0].Start())
	testkit.Eventually(t, "repaired", func() bool {
		return f.sum(t, "quorumlock.lock.repairs", str("quorumlock.outcome", "granted")) >= 1
	})
	must(t, lock.Unlock(ctx))
	testkit.Equal(t, f.sum(t, "quorumlock.lock.releases", group), 1, "releases")
	short := testkit.Got(f.locker.With(quorum.WithFixedLease(50*time.Millisecond)).Lock(ctx, "invoice:43"))(t)
	<-short.Context().Done()
	testkit.Eventually(t, "lost", func() bool { return f.sum(t, "quorumlock.lock.losses", group) == 1 })

	told := f.read(t)
	for _, m := range metrics.All() {
		got, ok := told[m.Name]
		testkit.Check(t, ok || m == metrics.WriteBacks, "%s is not told", m.Name) // as the case may be
		testkit.Check(t, !ok || got.Unit == m.Unit && got.Description == m.Help,
			"%s has the unit %q and the description %q", m.Name, got.Unit, got.Description)
	}
	must(t, metricsHaveNo(told, "invoice:4"))
}

// A call is a span with an event for each attempt, and with the caller's span as its parent.
func TestSpans(t *testing.T) {
	f := start(t)
	ctx, parent := trace.NewTracerProvider().Tracer("caller").Start(t.Context(), "work")
	lock := testkit.Got(f.locker.Lock(ctx, "invoice:42"))(t)
	_, err := f.open(t).TryLock(ctx, "invoice:42")
	testkit.Require(t, err != nil, "two holders")
	for _, m := range f.masters[1:] {
		must(t, m.Kill())
	}
	f.locker.TryLock(ctx, "other")
	for _, m := range f.masters[1:] {
		must(t, m.Start())
	}
	lock.Unlock(ctx)
	all := f.spans.GetSpans()
	testkit.Require(t, len(all) == 3, "%d spans", len(all))
	for i, want := range []struct {
		outcome, group string
		status         codes.Code
	}{{"acquired", "invoice", codes.Unset}, {"held", "invoice", codes.Unset}, {"unavailable", "other", codes.Error}} {
		s := all[i]
		set := attribute.NewSet(s.Attributes...)
		outcome, _ := set.Value(outcomeKey)
		group, _ := set.Value(groupKey)
		attempts, _ := set.Value(attemptsKey)
		testkit.Check(t, s.Name == "quorumlock.lock" && outcome.AsString() == want.outcome && group.AsString() == want.group &&
			s.Status.Code == want.status && attempts.AsInt64() == int64(len(s.Events)),
			"span %d is %s %v, with the status %v", i, s.Name, s.Attributes, s.Status)
		testkit.Check(t, s.Parent.SpanID() == parent.SpanContext().SpanID() && !s.EndTime.IsZero(),
			"span %d has the parent %v", i, s.Parent)
		last := s.Events[len(s.Events)-1]
		testkit.Check(t, last.Name == "quorumlock.attempt" && slices.Contains(last.Attributes, outcomeKey.String(want.outcome)),
			"span %d has the events %v", i, s.Events)
	}
	first := all[0].Events
	if got := first[len(first)-1].Attributes; !slices.Contains(got, grantedKey.Int(2)) && !slices.Contains(got, grantedKey.Int(3)) {
		t.Errorf("the votes of an attempt that acquired are %v", got)
	}
}

// Each hook is measured or traced, each count of an attempt is in its event, and each outcome decides on the status.
func TestEachHookIsTold(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tel := testkit.Got(New(WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))))(t)
	h, e := tel.Hooks(), quorum.AttemptEvent{Names: []string{"a"}}
	for _, all := range []any{h, tel.NodeHooks()} {
		for _, hook := range reflect.VisibleFields(reflect.TypeOf(all)) {
			testkit.Check(t, !reflect.ValueOf(all).FieldByIndex(hook.Index).IsNil(),
				"%s is not told: see internal/metrics/hooks.go, and spans.go if it is of a call", hook.Name)
		}
	}
	l := testkit.Opened(redlock.Open([]string{"redis://127.0.0.1:1"}))(t)
	counts := 0
	for i := range reflect.TypeOf(e).NumField() {
		if v := reflect.ValueOf(&e).Elem().Field(i); v.Kind() == reflect.Int {
			v.SetInt(7)
			counts++
		}
	}
	for outcome := range l.Stats().Attempts {
		ctx := h.LockStart(t.Context(), e.Names)
		h.Attempt(ctx, e)
		h.LockEnd(ctx, quorum.LockEvent{Names: e.Names, Outcome: outcome})
		span := spans.GetSpans()[0]
		spans.Reset()
		if fine := slices.Contains([]string{"acquired", "held", "canceled"}, outcome); fine != (span.Status.Code == codes.Unset) {
			t.Errorf("%s has the status %v: see LockEnd in spans.go", outcome, span.Status)
		}
		told := slices.DeleteFunc(span.Events[0].Attributes, func(a attribute.KeyValue) bool { return a.Value.String() != "7" })
		testkit.Check(t, len(told) == counts,
			"of %d counts of an attempt its event has only %v: see Attempt in spans.go", counts, told)
	}
}

// Without a group, nothing tells locks apart.
func TestWithoutGroup(t *testing.T) {
	reader := metric.NewManualReader()
	tel := testkit.Got(New(WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))))(t)
	ctx := context.Background()
	h := tel.Hooks()
	ctx = h.LockStart(ctx, []string{"invoice:42"})
	h.LockEnd(ctx, quorum.LockEvent{Names: []string{"invoice:42"}})
	told := (&fixture{reader: reader}).read(t)
	testkit.Require(t, len(told) != 0, "nothing is told")
	must(t, metricsHaveNo(told, "invoice"))
}

// metricsHaveNo returns an error if the text is anywhere in the metrics.
func metricsHaveNo(told map[string]metricdata.Metrics, text string) error {
	for name, m := range told {
		if s := fmt.Sprintf("%+v", m); strings.Contains(s, text) {
			return fmt.Errorf("%s has the name of a lock: %s", name, s)
		}
	}
	return nil
}

// Names are any bytes, and an attribute is UTF-8: one that is not stops the export of all.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"invoice:42", "\xff:1", "/run/\xfe.sock"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		reader, spans := metric.NewManualReader(), tracetest.NewInMemoryExporter()
		tel := testkit.Got(New(WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
			WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))), WithGroup(func(name string) string { return name })))(t)
		if l, err := redlock.Open([]string{"redis://127.0.0.1:1?name=" + url.QueryEscape(name)}); err == nil {
			defer l.Close()
			tel.Observe(name, l)
		}
		h, names := tel.Hooks(), []string{name}
		h.LockEnd(h.LockStart(t.Context(), names), quorum.LockEvent{Names: names})
		h.Renewed(quorum.RenewalEvent{Node: name, Renewed: 1})
		tel.NodeHooks().StateChanged(node.StateEvent{Node: name})
		tel.NodeHooks().ScriptEnded(node.ScriptEvent{Address: name})
		told := fmt.Sprint((&fixture{reader: reader}).read(t), spans.GetSpans()[0].Attributes)
		testkit.Check(t, utf8.ValidString(told), "not UTF-8: %q", told)
	})
}
