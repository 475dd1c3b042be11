package export

import (
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// The metrics about an export itself. The dashboard of the manual shows them
// (server/daemon/dashboard.json).
const (
	metricUp     = "endoscope_export_up"
	metricSeries = "endoscope_export_series"
	metricLost   = "endoscope_export_lost_total"
	metricSent   = "endoscope_export_sent_total"
	metricCost   = "endoscope_export_overhead_seconds_total"
)

const helpOverhead = "CPU time that the probes and samples of the export have cost its program, as counted, at measured prices."

// health adds how an export is.
func (g gathering) health(e *Export) {
	gauge := func(name, help string, v float64) {
		f := g.family(name, help, dto.MetricType_GAUGE)
		f.Metric = append(f.Metric, &dto.Metric{Label: identity(e), Gauge: &dto.Gauge{Value: proto.Float64(v)}})
	}
	counter := func(name, help string, v float64, more ...*dto.LabelPair) {
		f := g.family(name, help, dto.MetricType_COUNTER)
		f.Metric = append(f.Metric, &dto.Metric{Label: append(more, identity(e)...), Counter: &dto.Counter{Value: proto.Float64(v)}})
	}
	up := 0.0
	if e.State() == "running" {
		up = 1
	}
	gauge(metricUp, "1 while the query of the export runs.", up)
	n, _ := e.Series()
	gauge(metricSeries, "Series that the export has now.", float64(n))
	if e.sender != nil {
		counter(metricSent, "Data points and spans that the receiver has accepted.", float64(e.Sent()))
	}
	counter(metricCost, helpOverhead, e.Query.Cost().Seconds())
	for _, l := range e.Losses() {
		counter(metricLost, "What the export has lost, by cause.", float64(l.N), label("cause", l.Cause))
	}
}
