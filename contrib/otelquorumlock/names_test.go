package otelquorumlock

import (
	"fmt"
	"net/url"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Names are any bytes, and an attribute is UTF-8: one that is not stops the export of all.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"invoice:42", "\xff:1", "/run/\xfe.sock"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		reader, spans := metric.NewManualReader(), tracetest.NewInMemoryExporter()
		tel, err := New(WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
			WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))), WithGroup(func(name string) string { return name }))
		must(t, err)
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
		if !utf8.ValidString(told) {
			t.Errorf("not UTF-8: %q", told)
		}
	})
}
