package export

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/snappy"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"
)

// remoteWrite is Prometheus' remote write 1.0: each snapshot is a request with one sample of
// each series. The metrics have the names and labels that a scrape would find, and the labels
// job and instance, which a scraper adds.
type remoteWrite struct {
	to      string
	headers map[string]string
	client  *http.Client
}

func (t *remoteWrite) metrics(ctx context.Context, e *Export, shot *Snapshot) (int64, error) {
	headers := map[string]string{"Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
	for name, value := range t.headers {
		headers[name] = value
	}
	_, _, err := post(ctx, t.client, t.to, headers, writeRequestOf(e, shot))
	return 0, err
}

// traces is not called: the planner refuses spans for this receiver.
func (t *remoteWrite) traces(context.Context, *Export, []*span) (int64, error) {
	return 0, permanent{errors.New("remote write has no spans")}
}

func (t *remoteWrite) close() { t.client.CloseIdleConnections() }

// writeRequestOf returns the body of a request: a snapshot, and how the export is.
func writeRequestOf(e *Export, shot *Snapshot) []byte {
	g := gathering{}
	g.export(e, shot)
	g.health(e)
	w := writeRequest{at: shot.At / 1e6, instance: hostName()}
	for _, f := range g {
		w.family(f)
	}
	return snappy.Encode(nil, w.body)
}

// writeRequest encodes a WriteRequest (prompb/remote.proto and types.proto of Prometheus).
type writeRequest struct {
	at       int64 // of all samples, ms
	instance string
	body     []byte

	labels []*dto.LabelPair // of the current series
	series []byte
	inner  []byte
}

func (w *writeRequest) family(f *dto.MetricFamily) {
	name := f.GetName()
	for _, m := range f.Metric {
		switch h := m.Histogram; {
		case m.Gauge != nil:
			w.sample(name, m.Label, m.Gauge.GetValue())
		case m.Counter != nil:
			w.sample(name, m.Label, m.Counter.GetValue())
		case h != nil && len(h.PositiveSpan)+len(h.NegativeSpan) > 0:
			w.begin(name, m.Label)
			w.inner = appendHistogram(w.inner[:0], h, w.at)
			w.end(4)
		case h != nil:
			bucket := func(border string, n uint64) {
				w.sample(name+"_bucket", append(slices.Clip(m.Label), label("le", border)), float64(n))
			}
			for _, b := range h.Bucket {
				bucket(strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), b.GetCumulativeCount())
			}
			bucket("+Inf", h.GetSampleCount())
			w.sample(name+"_count", m.Label, float64(h.GetSampleCount()))
			w.sample(name+"_sum", m.Label, h.GetSampleSum())
		}
	}
}

func (w *writeRequest) sample(name string, labels []*dto.LabelPair, v float64) {
	w.begin(name, labels)
	w.inner = protowire.AppendTag(w.inner[:0], 1, protowire.Fixed64Type)
	w.inner = protowire.AppendFixed64(w.inner, math.Float64bits(v))
	w.inner = appendInt(w.inner, 2, w.at)
	w.end(2)
}

// begin begins a series. Receivers want labels in the order of their names.
func (w *writeRequest) begin(name string, labels []*dto.LabelPair) {
	w.labels = append(w.labels[:0], labels...)
	add := func(name, value string) {
		if !slices.ContainsFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == name }) {
			w.labels = append(w.labels, label(name, value))
		}
	}
	add("__name__", name)
	add("job", "endoscope")
	add("instance", w.instance)
	slices.SortFunc(w.labels, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	w.series = w.series[:0]
	for _, l := range w.labels {
		if l.GetValue() == "" {
			continue // the same as no label
		}
		w.inner = protowire.AppendTag(w.inner[:0], 1, protowire.BytesType)
		w.inner = protowire.AppendString(w.inner, l.GetName())
		w.inner = protowire.AppendTag(w.inner, 2, protowire.BytesType)
		w.inner = protowire.AppendString(w.inner, strings.ToValidUTF8(l.GetValue(), "\uFFFD"))
		w.series = protowire.AppendTag(w.series, 1, protowire.BytesType)
		w.series = protowire.AppendBytes(w.series, w.inner)
	}
}

// end ends a series whose sample or histogram, by number of field, is in inner.
func (w *writeRequest) end(field protowire.Number) {
	w.series = protowire.AppendTag(w.series, field, protowire.BytesType)
	w.series = protowire.AppendBytes(w.series, w.inner)
	w.body = protowire.AppendTag(w.body, 1, protowire.BytesType)
	w.body = protowire.AppendBytes(w.body, w.series)
}

func appendInt(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

func appendSigned(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), protowire.EncodeZigZag(v))
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

// appendHistogram appends the fields of a native Histogram.
func appendHistogram(b []byte, h *dto.Histogram, at int64) []byte {
	b = appendInt(b, 1, int64(h.GetSampleCount()))
	b = appendDouble(b, 3, h.GetSampleSum())
	b = appendSigned(b, 4, int64(h.GetSchema()))
	b = appendDouble(b, 5, h.GetZeroThreshold())
	b = appendInt(b, 6, int64(h.GetZeroCount()))
	b = appendBuckets(b, 8, h.NegativeSpan, h.NegativeDelta)
	b = appendBuckets(b, 11, h.PositiveSpan, h.PositiveDelta)
	return appendInt(b, 15, at)
}

// appendBuckets appends the spans at a field, and the packed deltas at the next one.
func appendBuckets(b []byte, field protowire.Number, spans []*dto.BucketSpan, deltas []int64) []byte {
	var inner []byte
	for _, s := range spans {
		inner = appendSigned(inner[:0], 1, int64(s.GetOffset()))
		inner = appendInt(inner, 2, int64(s.GetLength()))
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
	}
	if len(deltas) == 0 {
		return b
	}
	inner = inner[:0]
	for _, d := range deltas {
		inner = protowire.AppendVarint(inner, protowire.EncodeZigZag(d))
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field+1, protowire.BytesType), inner)
}
