package promquorumlock

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/quorumlock/quorumlock/internal/metrics"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Metrics are the metrics of a process's locks: a [prometheus.Collector], to be registered once.
// They are safe for concurrent use.
type Metrics struct {
	feed       *metrics.Feed
	lockers    metrics.Lockers
	counters   map[*metrics.Metric]*prometheus.CounterVec
	histograms map[*metrics.Metric]*prometheus.HistogramVec
	read       map[*metrics.Metric]*prometheus.Desc // from Stats
}

var _ prometheus.Collector = (*Metrics)(nil)

// Option configures [Metrics].
type Option func(*options)

type options struct{ group func(name string) string }

// WithGroup adds the label quorumlock_group: what group returns for a lock's first name. It should
// return one of a few words, since each makes series of its own. It may be called by several
// goroutines at once.
func WithGroup(group func(name string) string) Option {
	return func(o *options) { o.group = group }
}

// New returns metrics that measure nothing yet: see [Metrics.Options] and [Metrics.Observe].
func New(opts ...Option) *Metrics {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	m := &Metrics{
		counters:   map[*metrics.Metric]*prometheus.CounterVec{},
		histograms: map[*metrics.Metric]*prometheus.HistogramVec{},
		read:       map[*metrics.Metric]*prometheus.Desc{},
	}
	m.feed = metrics.NewFeed(m.record, o.group)
	for _, d := range metrics.All() {
		name, labels := d.PrometheusName(), make([]string, len(d.Labels))
		for i, label := range d.Labels {
			labels[i] = metrics.PrometheusLabel(label)
		}
		switch d.Kind {
		case metrics.Counter:
			m.counters[d] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: d.Help}, labels)
		case metrics.Histogram:
			m.histograms[d] = prometheus.NewHistogramVec(
				prometheus.HistogramOpts{Name: name, Help: d.Help, Buckets: d.Bounds}, labels)
		default:
			m.read[d] = prometheus.NewDesc(name, d.Help, labels, nil)
		}
	}
	return m
}

// Options returns the options with which redlock.Open and multilock.Open make a Locker that is
// measured. For a Locker over nodes of its own, see [Metrics.Hooks].
func (m *Metrics) Options() []quorum.Option {
	return []quorum.Option{quorum.WithHooks(m.Hooks()), quorum.WithNodeOptions(node.WithHooks(m.NodeHooks()))}
}

// Hooks returns the hooks that measure a Locker, for [quorum.WithHooks].
func (m *Metrics) Hooks() quorum.Hooks { return m.feed.Hooks() }

// NodeHooks returns the hooks that measure a node, for [node.WithHooks].
func (m *Metrics) NodeHooks() node.Hooks { return m.feed.NodeHooks() }

// Observe adds a Locker's Stats to what is collected, with the label quorumlock_locker, until stop
// is called. It replaces a Locker that is observed by the same name.
func (m *Metrics) Observe(name string, l *quorum.Locker) (stop func()) { return m.lockers.Add(name, l) }

// record is a [metrics.Sink].
func (m *Metrics) record(_ context.Context, d *metrics.Metric, value float64, labels ...string) {
	if d.Kind == metrics.Counter {
		m.counters[d].WithLabelValues(labels...).Add(value)
	} else {
		m.histograms[d].WithLabelValues(labels...).Observe(value)
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.counters {
		c.Describe(to)
	}
	for _, h := range m.histograms {
		h.Describe(to)
	}
	for _, d := range m.read {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.counters {
		c.Collect(to)
	}
	for _, h := range m.histograms {
		h.Collect(to)
	}
	m.lockers.Observe(func(d *metrics.Metric, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d.Kind == metrics.Total {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(m.read[d], kind, value, labels...)
	})
}
