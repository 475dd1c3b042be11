package export

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"endoscope/operators/encoders/pprof"
	"endoscope/planner"
	"endoscope/probes/process"
)

// profiles sends profiles: what was counted since those that were accepted last. What was
// in profiles that were not accepted is in the next ones.
type profiles struct {
	store store
	sent  map[string][]float64 // by labels: values that have been accepted
	at    int64                // when these were counted; 0: none have been accepted
}

// store is a store of profiles.
type store interface {
	// push stores profiles.
	push(ctx context.Context, series []labelledProfile) error
	close()
}

// labelledProfile is a profile in the form of profile.proto, compressed.
type labelledProfile struct {
	labels  [][2]string // in the order of their names
	profile []byte
}

func newProfiles(s store) *profiles { return &profiles{store: s, sent: map[string][]float64{}} }

func (t *profiles) metrics(ctx context.Context, e *Export, shot *Snapshot) (int64, error) {
	series, err := t.since(e, shot)
	if err != nil {
		return 0, permanent{err}
	}
	if len(series) > 0 {
		if err := t.store.push(ctx, series); err != nil {
			return 0, err
		}
	}
	// What the limit of series has left out of this snapshot stays: it may come back. There
	// are no more than the query has groups, whose memory is limited.
	for i := range shot.Points {
		t.sent[shot.Points[i].key()] = shot.Points[i].Values
	}
	t.at = shot.At
	return 0, nil
}

// traces is not called: the planner refuses spans for these receivers.
func (t *profiles) traces(context.Context, *Export, []*span) (int64, error) {
	return 0, permanent{errors.New("a store of profiles has no spans")}
}

func (t *profiles) close() { t.store.close() }

// key distinguishes the points of a snapshot.
func (p *Point) key() string { return strings.Join(p.Labels, "\x00") }

// since returns a profile for each combination of labels that has counted something since
// the last profiles.
func (t *profiles) since(e *Export, shot *Snapshot) ([]labelledProfile, error) {
	at := t.at
	if at == 0 {
		at = shot.Began
	}
	type building struct {
		*pprof.Builder
		labels []string
	}
	byLabels := map[string]*building{}
	for i := range shot.Points {
		p := &shot.Points[i]
		values, any := t.counted(e.Plan.Metrics, p)
		if !any {
			continue
		}
		own := slices.Delete(slices.Clone(p.Labels), e.Plan.Stack, e.Plan.Stack+1)
		key := strings.Join(own, "\x00")
		b := byLabels[key]
		if b == nil {
			b = &building{pprof.NewBuilder(&profile.Profile{TimeNanos: at, DurationNanos: shot.At - at, SampleType: sampleTypes(e.Plan)}), own}
			byLabels[key] = b
		}
		s := &profile.Sample{Value: values}
		for _, f := range p.Stack {
			s.Location = append(s.Location, b.Location(pprof.FrameOf(f)))
		}
		if len(p.Stack) == 0 {
			s.Location = append(s.Location, b.Location(pprof.Frame{Function: "(no stack)"}))
		}
		b.Profile.Sample = append(b.Profile.Sample, s)
	}
	var all []labelledProfile
	for _, key := range slices.Sorted(maps.Keys(byLabels)) {
		b := byLabels[key]
		var raw bytes.Buffer
		if err := b.Profile.Write(&raw); err != nil {
			return nil, err
		}
		all = append(all, labelledProfile{labelsOf(e, b.labels), raw.Bytes()})
	}
	return all, nil
}

// counted returns what a stack has counted since the last profiles, in the units of the
// columns.
func (t *profiles) counted(metrics []planner.Metric, p *Point) (values []int64, any bool) {
	before := t.sent[p.key()]
	values = make([]int64, len(metrics))
	for k := range metrics {
		now, last := p.Values[k], 0.0
		if before != nil && before[k] == before[k] && before[k] <= now {
			last = before[k]
		}
		if now == now { // not NULL
			values[k] = int64(math.Round((now - last) * metrics[k].Unit.Per))
		}
		any = any || values[k] != 0
	}
	return values, any
}

// sampleTypes names the values of samples as the metrics are named, without the export.
func sampleTypes(p *planner.Export) (all []*profile.ValueType) {
	for k := range p.Metrics {
		m := &p.Metrics[k]
		name := strings.TrimPrefix(strings.TrimPrefix(m.Name, p.Name), "_")
		if name == "" {
			name = "samples"
		}
		unit := "count"
		switch m.Unit.Suffix {
		case "seconds":
			unit = "nanoseconds"
		case "bytes":
			unit = "bytes"
		}
		all = append(all, &profile.ValueType{Type: name, Unit: unit})
	}
	return all
}

// labelsOf returns the labels of a series: those of the query, the export as the name, and
// what it observes.
func labelsOf(e *Export, own []string) [][2]string {
	labels := map[string]string{"__name__": e.Plan.Name, "service_name": e.Plan.Name, "instance": hostName()}
	if pid := onlyProcess(e.Plan.Query); pid != 0 {
		if ran, ok := process.Lookup(pid); ok {
			labels["service_name"] = ran.Comm
		}
	}
	if e.Owner != "" {
		labels["owner"] = e.Owner
	}
	for k, l := range slices.Delete(slices.Clone(e.Plan.Labels), e.Plan.Stack, e.Plan.Stack+1) {
		labels[l.Name] = own[k]
	}
	var all [][2]string
	for name, value := range labels {
		if value != "" {
			all = append(all, [2]string{name, pprof.Text(value)})
		}
	}
	slices.SortFunc(all, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return all
}

// pyroscope is Pyroscope's push.v1.PusherService, by Connect's unary protocol.
type pyroscope struct {
	to      string
	headers map[string]string
	client  *http.Client
}

func (s *pyroscope) push(ctx context.Context, series []labelledProfile) error {
	var body []byte
	for _, p := range series {
		one := appendSample(appendLabels(nil, p.labels), p.profile)
		body = protowire.AppendBytes(protowire.AppendTag(body, 1, protowire.BytesType), one)
	}
	_, _, err := post(ctx, s.client, s.to, s.headers, body)
	return err
}

func (s *pyroscope) close() { s.client.CloseIdleConnections() }

// parca is Parca's parca.profilestore.v1alpha1.ProfileStoreService, by gRPC.
type parca struct {
	conn    *grpc.ClientConn
	headers metadata.MD
}

func (s *parca) push(ctx context.Context, series []labelledProfile) error {
	var body []byte
	for _, p := range series {
		// Here the labels are a message of their own.
		one := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), appendLabels(nil, p.labels))
		body = protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), appendSample(one, p.profile))
	}
	var answer []byte
	err := s.conn.Invoke(metadata.NewOutgoingContext(ctx, s.headers), "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw", &body, &answer, grpc.ForceCodec(encoded{}))
	return retryable(err)
}

func (s *parca) close() { _ = s.conn.Close() }

// encoded is a codec of messages that are encoded already.
type encoded struct{}

func (encoded) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (encoded) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}
func (encoded) Name() string { return "proto" }

// appendLabels appends labels at field 1.
func appendLabels(b []byte, labels [][2]string) []byte {
	var inner []byte
	for _, l := range labels {
		inner = protowire.AppendString(protowire.AppendTag(inner[:0], 1, protowire.BytesType), l[0])
		inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), l[1])
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), inner)
	}
	return b
}

// appendSample appends a RawSample at field 2.
func appendSample(b, raw []byte) []byte {
	inner := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), raw)
	return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), inner)
}
