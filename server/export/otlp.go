package export

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes/process"
)

func attribute(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

func number64(key string, v int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}}
}

var hostName = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

var scope = &commonpb.InstrumentationScope{Name: "endoscope"}

// resourceOf describes what an export observes: the host, and the process if it is one.
func resourceOf(e *Export, pid int) *resourcepb.Resource {
	r := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{attribute("host.name", hostName()), attribute("endoscope.export", e.Plan.Name)}}
	if e.Owner != "" {
		r.Attributes = append(r.Attributes, attribute("endoscope.owner", e.Owner))
	}
	service := e.Plan.Name
	if ran, ok := process.Lookup(pid); pid != 0 && ok {
		service = ran.Comm
		r.Attributes = append(r.Attributes, number64("process.pid", int64(pid)), attribute("process.executable.path", ran.Exe), attribute("process.executable.name", filepath.Base(ran.Exe)))
	}
	r.Attributes = append(r.Attributes, attribute("service.name", service))
	return r
}

// onlyProcess returns the one process that a query is about; 0 if it is not one.
func onlyProcess(p *plan.Query) (pid int) {
	for _, leaf := range plan.Leaves(p.Root) {
		switch n := leaf.Target.PIDs; {
		case len(n) != 1 || pid != 0 && pid != n[0]:
			return 0
		default:
			pid = n[0]
		}
	}
	return pid
}

// metricsRequest returns a snapshot, and what the export has lost, as metrics.
func metricsRequest(e *Export, shot *Snapshot) *metricscollector.ExportMetricsServiceRequest {
	attrs := make([][]*commonpb.KeyValue, len(shot.Points))
	for i := range shot.Points {
		for k, l := range e.Plan.Labels {
			attrs[i] = append(attrs[i], attribute(l.Name, shot.Points[i].Labels[k]))
		}
	}
	var all []*metricspb.Metric
	var c converter
	for k := range e.Plan.Metrics {
		m := &e.Plan.Metrics[k]
		numbers := numberPoints(shot, attrs, k)
		if len(numbers) == 0 && m.Kind < planner.Exponential {
			continue
		}
		out := &metricspb.Metric{Name: m.Name + m.Suffix(), Unit: m.Unit.Code, Description: m.Help}
		switch m.Kind {
		case planner.Gauge:
			out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: numbers}}
		case planner.Counter:
			out.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: numbers}}
		case planner.Exponential:
			h := &metricspb.ExponentialHistogram{AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
			for i := range shot.Points {
				sketch, _ := shot.Points[i].Shapes[k].(string)
				x := c.exponential(sketch, m.Unit.Per)
				h.DataPoints = append(h.DataPoints, &metricspb.ExponentialHistogramDataPoint{Attributes: attrs[i], StartTimeUnixNano: uint64(shot.Began), TimeUnixNano: uint64(shot.At),
					Count: x.count, Sum: sumOf(shot.Points[i].Values[k]), Scale: x.schema, ZeroCount: x.zero, Positive: bucketsOf(x.positive), Negative: bucketsOf(x.negative)})
			}
			out.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: h}
		case planner.Bucketed:
			h := &metricspb.Histogram{AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
			bounds := make([]float64, len(m.Borders))
			for i, b := range m.Borders {
				bounds[i] = b / m.Unit.Per
			}
			for i := range shot.Points {
				counts, n := bucketed(shot.Points[i].Shapes[k], m.Borders)
				h.DataPoints = append(h.DataPoints, &metricspb.HistogramDataPoint{Attributes: attrs[i], StartTimeUnixNano: uint64(shot.Began), TimeUnixNano: uint64(shot.At),
					Count: n, Sum: sumOf(shot.Points[i].Values[k]), BucketCounts: counts, ExplicitBounds: bounds})
			}
			out.Data = &metricspb.Metric_Histogram{Histogram: h}
		}
		all = append(all, out)
	}
	all = append(all, overheadMetric(e, shot))
	if lost := lossMetric(e, shot); lost != nil {
		all = append(all, lost)
	}
	return &metricscollector.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: resourceOf(e, onlyProcess(e.Plan.Query)), ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: scope, Metrics: all}}}}}
}

// numberPoints returns a metric's values that are not NULL.
func numberPoints(shot *Snapshot, attrs [][]*commonpb.KeyValue, k int) (points []*metricspb.NumberDataPoint) {
	for i := range shot.Points {
		if v := shot.Points[i].Values[k]; v == v {
			points = append(points, &metricspb.NumberDataPoint{Attributes: attrs[i], StartTimeUnixNano: uint64(shot.Began), TimeUnixNano: uint64(shot.At), Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: v}})
		}
	}
	return points
}

func sumOf(v float64) *float64 {
	if v != v {
		v = 0
	}
	return &v
}

// bucketsOf returns buckets by OTLP's numbers: bucket i has the values in (base^i,
// base^(i+1)].
func bucketsOf(s side) *metricspb.ExponentialHistogramDataPoint_Buckets {
	return &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: int32(s.first - 1), BucketCounts: s.counts}
}

// overheadMetric is the processor time that the export has cost its program.
func overheadMetric(e *Export, shot *Snapshot) *metricspb.Metric {
	return &metricspb.Metric{Name: "endoscope.export.overhead", Unit: "s", Description: helpOverhead, Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{
		IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
		DataPoints: []*metricspb.NumberDataPoint{{StartTimeUnixNano: uint64(e.Created.UnixNano()), TimeUnixNano: uint64(shot.At),
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: e.Query.Cost().Seconds()}}}}}}
}

// lossMetric is what an export has lost; nil if that is nothing.
func lossMetric(e *Export, shot *Snapshot) *metricspb.Metric {
	sum := &metricspb.Sum{IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
	for _, l := range e.Losses() {
		sum.DataPoints = append(sum.DataPoints, &metricspb.NumberDataPoint{Attributes: []*commonpb.KeyValue{attribute("cause", l.Cause)},
			StartTimeUnixNano: uint64(e.Created.UnixNano()), TimeUnixNano: uint64(shot.At), Value: &metricspb.NumberDataPoint_AsInt{AsInt: int64(l.N)}})
	}
	if len(sum.DataPoints) == 0 {
		return nil
	}
	return &metricspb.Metric{Name: "endoscope.export.lost", Unit: "1", Description: "What the export has lost, by cause.", Data: &metricspb.Metric_Sum{Sum: sum}}
}

// tracesRequest returns spans by process.
func tracesRequest(e *Export, spans []*span) *tracecollector.ExportTraceServiceRequest {
	out := &tracecollector.ExportTraceServiceRequest{}
	byPID := map[int64]*tracepb.ScopeSpans{}
	for _, s := range spans {
		to := byPID[s.pid]
		if to == nil {
			to = &tracepb.ScopeSpans{Scope: scope}
			byPID[s.pid] = to
			out.ResourceSpans = append(out.ResourceSpans, &tracepb.ResourceSpans{Resource: resourceOf(e, int(s.pid)), ScopeSpans: []*tracepb.ScopeSpans{to}})
		}
		p := &tracepb.Span{TraceId: s.trace.id[:], SpanId: s.id[:], Name: s.name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
			StartTimeUnixNano: uint64(s.start), EndTimeUnixNano: uint64(s.end), Attributes: s.attrs}
		if s.parent != ([8]byte{}) {
			p.ParentSpanId = s.parent[:]
		}
		if s.link != nil {
			p.Links = []*tracepb.Span_Link{{TraceId: s.link.trace.id[:], SpanId: s.link.id[:]}}
		}
		to.Spans = append(to.Spans, p)
	}
	return out
}
