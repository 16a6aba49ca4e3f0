package metrics

import "strings"

// PrometheusName returns the metric's name in Prometheus, the same as OpenTelemetry's exporter
// makes of it.
func (m *Metric) PrometheusName() string {
	name := PrometheusLabel(m.Name)
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == Counter || m.Kind == Total {
		name += "_total"
	}
	return name
}

// PrometheusLabel returns an attribute's name as Prometheus has it.
func PrometheusLabel(attribute string) string { return strings.ReplaceAll(attribute, ".", "_") }
