package export

import (
	"cmp"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"endoscope/planner"
	"endoscope/planner/types"
)

// Gather returns the metrics of the exports to Prometheus that one function selects, and how
// all exports that it selects are.
func (r *Registry) Gather(selected func(owner string) bool) []*dto.MetricFamily {
	g := gathering{}
	for _, e := range r.List() {
		if !selected(e.Owner) {
			continue
		}
		if e.Plan.To == "" {
			g.export(e, e.figures.Snapshot())
		}
		g.health(e)
	}
	return slices.SortedFunc(maps.Values(g), func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// gathering is metric families by name.
type gathering map[string]*dto.MetricFamily

// family returns the family of a name; nil if there is one of another type.
func (g gathering) family(name, help string, t dto.MetricType) *dto.MetricFamily {
	f := g[name]
	if f == nil {
		f = &dto.MetricFamily{Name: proto.String(name), Help: proto.String(help), Type: t.Enum()}
		g[name] = f
	}
	if f.GetType() != t {
		return nil
	}
	return f
}

// identity are the labels that every metric of an export has.
func identity(e *Export) []*dto.LabelPair {
	labels := []*dto.LabelPair{label("export", e.Plan.Name)}
	if e.Owner != "" {
		labels = append(labels, label("owner", e.Owner))
	}
	return labels
}

func label(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: proto.String(name), Value: proto.String(value)}
}

func byName(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) }

// export adds the figures of an export; shot may be nil.
func (g gathering) export(e *Export, shot *Snapshot) {
	if shot == nil {
		return
	}
	began := timestamppb.New(time.Unix(0, shot.Began))
	own := identity(e)
	labels := make([][]*dto.LabelPair, len(shot.Points))
	for i := range shot.Points {
		pairs := slices.Clip(own)
		for k, l := range e.Plan.Labels {
			pairs = append(pairs, label(l.Name, shot.Points[i].Labels[k]))
		}
		slices.SortFunc(pairs, byName)
		labels[i] = pairs
	}
	var c converter
	for k := range e.Plan.Metrics {
		m := &e.Plan.Metrics[k]
		kind := map[planner.MetricKind]dto.MetricType{planner.Gauge: dto.MetricType_GAUGE, planner.Counter: dto.MetricType_COUNTER}
		t, plain := kind[m.Kind]
		if !plain {
			t = dto.MetricType_HISTOGRAM
		}
		f := g.family(m.FullName(), m.Help, t)
		if f == nil {
			e.Query.Tally.AddNoted("metric "+m.FullName()+" left out: another export has it with another type", 1)
			continue
		}
		for i := range shot.Points {
			p := &shot.Points[i]
			v := p.Values[k]
			if v != v && m.Kind < planner.Exponential {
				continue // NULL
			}
			out := &dto.Metric{Label: labels[i]}
			switch m.Kind {
			case planner.Gauge:
				out.Gauge = &dto.Gauge{Value: proto.Float64(v)}
			case planner.Counter:
				out.Counter = &dto.Counter{Value: proto.Float64(v), CreatedTimestamp: began}
			case planner.Exponential:
				sketch, _ := p.Shapes[k].(string)
				out.Histogram = nativeHistogram(c.exponential(sketch, m.Unit.Per))
			case planner.Bucketed:
				out.Histogram = classicHistogram(p.Shapes[k], m)
			}
			if h := out.Histogram; h != nil {
				h.CreatedTimestamp = began
				if h.SampleSum = proto.Float64(v); v != v {
					h.SampleSum = proto.Float64(0)
				}
			}
			f.Metric = append(f.Metric, out)
		}
		if len(f.Metric) == 0 {
			delete(g, m.FullName()) // a family without metrics cannot be written
		}
	}
}

func nativeHistogram(e *exponential) *dto.Histogram {
	h := &dto.Histogram{SampleCount: proto.Uint64(e.count), Schema: proto.Int32(e.schema), ZeroThreshold: proto.Float64(0), ZeroCount: proto.Uint64(e.zero)}
	h.PositiveSpan, h.PositiveDelta = spansOf(e.positive)
	h.NegativeSpan, h.NegativeDelta = spansOf(e.negative)
	if len(h.PositiveSpan)+len(h.NegativeSpan) == 0 {
		// Without any span it would be taken for a histogram with borders.
		h.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}
	}
	return h
}

// spansOf returns runs of buckets that are not empty, and their counts as differences.
func spansOf(s side) (spans []*dto.BucketSpan, deltas []int64) {
	last, end := int64(0), 0 // of the last run, by number of bucket
	for i, n := range s.counts {
		if n == 0 {
			continue
		}
		at := s.first + i
		if len(spans) == 0 || at != end {
			spans = append(spans, &dto.BucketSpan{Offset: proto.Int32(int32(at - end)), Length: proto.Uint32(0)})
		}
		run := spans[len(spans)-1]
		*run.Length++
		end = at + 1
		deltas = append(deltas, int64(n)-last)
		last = int64(n)
	}
	return spans, deltas
}

func classicHistogram(shape any, m *planner.Metric) *dto.Histogram {
	counts, all := bucketed(shape, m.Borders)
	h := &dto.Histogram{SampleCount: proto.Uint64(all)}
	sum := uint64(0)
	for i, b := range m.Borders {
		sum += counts[i]
		h.Bucket = append(h.Bucket, &dto.Bucket{CumulativeCount: proto.Uint64(sum), UpperBound: proto.Float64(b / m.Unit.Per)})
	}
	return h
}

// elements returns the elements of a LIST.
func elements(list any) []types.Value {
	l, _ := list.([]types.Value)
	return l
}
