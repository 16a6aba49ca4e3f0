package otelquorumlock

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/internal/metrics"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Scope is the name of the meter and the tracer.
const Scope = "github.com/quorumlock/quorumlock/contrib/otelquorumlock"

// Telemetry measures and traces a process's locks. It is safe for concurrent use.
type Telemetry struct {
	feed         *metrics.Feed
	tracer       trace.Tracer
	lockers      metrics.Lockers
	counters     map[*metrics.Metric]metric.Int64Counter
	histograms   map[*metrics.Metric]metric.Float64Histogram
	observables  map[*metrics.Metric]metric.Int64Observable
	registration metric.Registration
}

// Option configures a [Telemetry].
type Option func(*options)

type options struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	group   func(name string) string
}

// WithMeterProvider sets where metrics go (default: [otel.GetMeterProvider]).
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithTracerProvider sets where spans go (default: [otel.GetTracerProvider]).
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithGroup adds the attribute quorumlock.group: what group returns for a lock's first name. It
// should return one of a few words, since each makes series of its own. It may be called by several
// goroutines at once.
func WithGroup(group func(name string) string) Option {
	return func(o *options) { o.group = group }
}

// New returns a Telemetry that measures nothing yet: see [Telemetry.Options] and
// [Telemetry.Observe]. The error is the meter provider's.
func New(opts ...Option) (*Telemetry, error) {
	o := options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&o)
	}
	t := &Telemetry{
		tracer:      o.tracers.Tracer(Scope),
		counters:    map[*metrics.Metric]metric.Int64Counter{},
		histograms:  map[*metrics.Metric]metric.Float64Histogram{},
		observables: map[*metrics.Metric]metric.Int64Observable{},
	}
	t.feed = metrics.NewFeed(t.record, o.group)
	if err := t.instrument(o.meters.Meter(Scope)); err != nil {
		return nil, fmt.Errorf("otelquorumlock: %w", err)
	}
	return t, nil
}

// instrument makes the instruments.
func (t *Telemetry) instrument(meter metric.Meter) (err error) {
	var read []metric.Observable
	for _, d := range metrics.All() {
		help, unit := metric.WithDescription(d.Help), metric.WithUnit(d.Unit)
		switch d.Kind {
		case metrics.Counter:
			t.counters[d], err = meter.Int64Counter(d.Name, help, unit)
		case metrics.Histogram:
			t.histograms[d], err = meter.Float64Histogram(d.Name, help, unit,
				metric.WithExplicitBucketBoundaries(d.Bounds...))
		case metrics.Gauge:
			t.observables[d], err = meter.Int64ObservableGauge(d.Name, help, unit)
		case metrics.Level:
			t.observables[d], err = meter.Int64ObservableUpDownCounter(d.Name, help, unit)
		case metrics.Total:
			t.observables[d], err = meter.Int64ObservableCounter(d.Name, help, unit)
		}
		if err != nil {
			return err
		}
		if o := t.observables[d]; o != nil {
			read = append(read, o)
		}
	}
	t.registration, err = meter.RegisterCallback(t.collect, read...)
	return err
}

// collect observes the Stats of the Lockers.
func (t *Telemetry) collect(_ context.Context, to metric.Observer) error {
	t.lockers.Observe(func(d *metrics.Metric, value float64, labels ...string) {
		to.ObserveInt64(t.observables[d], int64(value), attributes(d, labels))
	})
	return nil
}

// Options returns the options with which redlock.Open and multilock.Open make a Locker that is
// measured. For a Locker over nodes of its own, see [Telemetry.Hooks].
func (t *Telemetry) Options() []quorum.Option {
	return []quorum.Option{quorum.WithHooks(t.Hooks()), quorum.WithNodeOptions(node.WithHooks(t.NodeHooks()))}
}

// Hooks returns the hooks that measure and trace a Locker, for [quorum.WithHooks].
func (t *Telemetry) Hooks() quorum.Hooks {
	h := t.feed.Hooks()
	attempt, end := h.Attempt, h.LockEnd
	h.LockStart = t.startSpan
	h.Attempt = func(ctx context.Context, e quorum.AttemptEvent) {
		addAttempt(ctx, e)
		attempt(ctx, e)
	}
	h.LockEnd = func(ctx context.Context, e quorum.LockEvent) {
		end(ctx, e) // in the span
		endSpan(ctx, e)
	}
	return h
}

// NodeHooks returns the hooks that measure a node, for [node.WithHooks].
func (t *Telemetry) NodeHooks() node.Hooks { return t.feed.NodeHooks() }

// Observe adds a Locker's Stats to what is read, with the attribute quorumlock.locker, until stop
// is called. It replaces a Locker that is observed by the same name.
func (t *Telemetry) Observe(name string, l *quorum.Locker) (stop func()) {
	return t.lockers.Add(name, l)
}

// Close ends the reading of Stats.
func (t *Telemetry) Close() error { return t.registration.Unregister() }

// record is a [metrics.Sink].
func (t *Telemetry) record(ctx context.Context, d *metrics.Metric, value float64, labels ...string) {
	if d.Kind == metrics.Counter {
		t.counters[d].Add(ctx, int64(value), attributes(d, labels))
	} else {
		t.histograms[d].Record(ctx, value, attributes(d, labels))
	}
}

// attributes returns a metric's attributes, without those that are empty.
func attributes(d *metrics.Metric, labels []string) metric.MeasurementOption {
	all := make([]attribute.KeyValue, 0, len(labels))
	for i, label := range labels {
		if label != "" {
			all = append(all, attribute.String(d.Labels[i], label))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}
