package export_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// receiver is an OTLP receiver that keeps what it gets, by the service of gRPC or by HTTP.
type receiver struct {
	mu      sync.Mutex
	metrics map[string]*metricspb.Metric // the latest by name
	spans   []*tracepb.Span
	attrs   []*commonpb.KeyValue // of the last resource
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	r *receiver
}

func (s metricsService) Export(_ context.Context, q *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	s.r.takeMetrics(q)
	return &metricscollector.ExportMetricsServiceResponse{}, nil
}

type traceService struct {
	tracecollector.UnimplementedTraceServiceServer
	r *receiver
}

func (s traceService) Export(_ context.Context, q *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	s.r.takeSpans(q)
	return &tracecollector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) takeMetrics(q *metricscollector.ExportMetricsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rm := range q.ResourceMetrics {
		r.attrs = rm.Resource.Attributes
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				r.metrics[m.Name] = m
			}
		}
	}
}

func (r *receiver) takeSpans(q *tracecollector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range q.ResourceSpans {
		r.attrs = rs.Resource.Attributes
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
}

func (r *receiver) got() ([]*tracepb.Span, map[string]*metricspb.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans[:len(r.spans):len(r.spans)], maps.Clone(r.metrics)
}

// distinct returns the number of spans by their ids: one that was sent again counts once.
func (r *receiver) distinct() int {
	ids := map[string]bool{}
	spans, _ := r.got()
	for _, s := range spans {
		ids[string(s.SpanId)] = true
	}
	return len(ids)
}

func newReceiver() *receiver { return &receiver{metrics: map[string]*metricspb.Metric{}} }

func (r *receiver) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics, r.spans, r.attrs = map[string]*metricspb.Metric{}, nil, nil
}

// patient are options for machines whose processors are taken away for a while: no call waits in vain
// for its caller, and no request is sent again.
const patient = "hold => 10min, timeout => 10min"

// listen serves gRPC at an address until stop is called.
func (r *receiver) listen(t testing.TB, addr string) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	metricscollector.RegisterMetricsServiceServer(s, metricsService{r: r})
	tracecollector.RegisterTraceServiceServer(s, traceService{r: r})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), s.Stop
}

// ServeHTTP is OTLP over HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	switch q.URL.Path {
	case "/base/v1/metrics":
		m := &metricscollector.ExportMetricsServiceRequest{}
		if proto.Unmarshal(body, m) == nil {
			r.takeMetrics(m)
			return
		}
	case "/base/v1/traces":
		m := &tracecollector.ExportTraceServiceRequest{}
		if proto.Unmarshal(body, m) == nil {
			r.takeSpans(m)
			return
		}
	}
	w.WriteHeader(http.StatusBadRequest)
}

// requests is the program of testdata/requests.c.
type requests struct {
	pid   int
	in    io.Writer
	out   *bufio.Reader
	calls map[int64]call // that it has made, by number
}

type call struct {
	name   string
	parent int64
	key    string
}

func startRequests(t testing.TB) *requests {
	t.Helper()
	cmd := exec.Command(testenv.CompileC(t, "testdata/requests.c", "-O1", "-pthread"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return &requests{pid: testenv.Run(t, cmd), in: in, out: bufio.NewReader(out), calls: map[int64]call{}}
}

// serve makes each of the program's threads serve n requests, and reads what it logs.
func (p *requests) serve(t testing.TB, n int) {
	t.Helper()
	fmt.Fprintln(p.in, n)
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "done\n" {
			return
		}
		f := strings.Fields(line)
		number, _ := strconv.ParseInt(f[0], 10, 64)
		parent, _ := strconv.ParseInt(f[2], 10, 64)
		p.calls[number] = call{f[1], parent, f[3]}
	}
}

func (p *requests) count() map[string]float64 {
	n := map[string]float64{}
	for _, c := range p.calls {
		n[c.name]++
	}
	return n
}

func newEngine(t testing.TB, o server.Options) *server.Engine {
	t.Helper()
	e, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func cell(v types.Value) string {
	switch {
	case v.IsNull:
		return "NULL"
	case v.Type == types.Varchar:
		return v.S
	}
	return plan.FormatValue(v)
}

// run executes a statement and returns its rows, and its notices.
func run(t testing.TB, e wire.Engine, statement string) (rows [][]string, notices []string) {
	t.Helper()
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer r.Close()
	for {
		ev, err := r.Next(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			return rows, notices
		case err != nil:
			t.Fatal(err)
		case ev.Kind == wire.Notice:
			notices = append(notices, ev.Text)
		case ev.Batch != nil:
			for i := range ev.Batch.Len() {
				var row []string
				for k := range ev.Batch.Cols {
					row = append(row, cell(ev.Batch.Cols[k].Value(ev.Batch.Row(i))))
				}
				rows = append(rows, row)
			}
			ev.Batch.Release()
		}
	}
}

func integer(s *tracepb.Span, key string) int64 {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetIntValue()
		}
	}
	return -1
}

func textOf(attrs []*commonpb.KeyValue, key string) string {
	for _, a := range attrs {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

const spansOfRequests = `AS SELECT function_name, arg0 AS number FROM function_duration WHERE pid = %d AND function_name IN ('serve', 'work', 'leaf')`

// check compares spans with the calls that the program has logged: the names, the parents and
// the traces.
func (p *requests) check(t *testing.T, spans []*tracepb.Span) {
	t.Helper()
	byID := map[string]*tracepb.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
	}
	if len(byID) != len(spans) {
		t.Errorf("%d ids of %d spans", len(byID), len(spans))
	}
	wrong := 0
	for _, s := range spans {
		want, parent := p.calls[integer(s, "number")], int64(0)
		if up := byID[string(s.ParentSpanId)]; up != nil {
			parent = integer(up, "number")
			if s.StartTimeUnixNano < up.StartTimeUnixNano || s.EndTimeUnixNano > up.EndTimeUnixNano {
				t.Errorf("%s is not within its parent %s", s.Name, up.Name)
			}
		} else if len(s.ParentSpanId) > 0 {
			parent = -1
		}
		trace := sha256.Sum256([]byte(want.key))
		if s.Name != want.name || parent != want.parent || string(s.TraceId) != string(trace[:16]) {
			if wrong++; wrong < 5 {
				t.Errorf("call %d: %s in %d of trace %x, want %v", integer(s, "number"), s.Name, parent, s.TraceId, want)
			}
		}
	}
}

// With the context as trace_id all spans of a request are in one trace, also those of calls whose
// callers are no spans.
func TestTracesOfContexts(t *testing.T) {
	testenv.NeedUprobes(t)
	r := newReceiver()
	addr, _ := r.listen(t, "127.0.0.1:0")
	p := startRequests(t)
	e := newEngine(t, server.Options{})
	run(t, e, "CREATE CONTEXT request AS BEGIN function_start WHERE function_name = 'serve' KEY str(arg1)")
	run(t, e, fmt.Sprintf("CREATE EXPORT spans TO 'otlp://%s' WITH (trace_id => request) AS SELECT function_name, arg0 AS number FROM function_duration WHERE pid = %d AND function_name IN ('work', 'leaf')", addr, p.pid))
	p.serve(t, 100)
	want := 0
	for _, c := range p.calls {
		if c.name != "serve" {
			want++
		}
	}
	var spans []*tracepb.Span
	testenv.UntilNil(t, "all spans have arrived", func() error {
		if spans, _ = r.got(); len(spans) < want {
			return fmt.Errorf("%d of %d", len(spans), want)
		}
		return nil
	})
	for _, s := range spans {
		of := p.calls[integer(s, "number")]
		if trace := sha256.Sum256([]byte(of.key)); string(s.TraceId) != string(trace[:16]) {
			t.Errorf("%s of request %s is in trace %x", s.Name, of.key, s.TraceId)
		}
	}
}

// Calls that a program logs itself become spans with the parents that it logs, and counts.
func TestOTLPReceivesCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	r := newReceiver()
	grpcAddr, _ := r.listen(t, "127.0.0.1:0")
	web := httptest.NewServer(r)
	t.Cleanup(web.Close)
	for _, url := range []string{"otlp://" + grpcAddr, "otlp+" + web.URL + "/base"} {
		t.Run(strings.SplitN(url, ":", 2)[0], func(t *testing.T) {
			r.reset()
			p := startRequests(t)
			e := newEngine(t, server.Options{})
			run(t, e, fmt.Sprintf("CREATE EXPORT spans TO '%s' WITH (%s, trace_id => CASE WHEN function_name = 'serve' THEN str(arg1) END) "+spansOfRequests, url, patient, p.pid))
			run(t, e, fmt.Sprintf("CREATE EXPORT figures TO '%s' WITH (timeout => 10min) AS SELECT function_name, COUNT(*) AS calls, AVG(duration), HISTOGRAM(duration), HISTOGRAM(duration, 0, 2000000, 1000000) AS coarse FROM function_duration WHERE pid = %d AND function_name IN ('serve', 'work', 'leaf') GROUP BY function_name EMIT EVERY 200ms", url, p.pid))
			p.serve(t, 100)
			var spans []*tracepb.Span
			testenv.UntilNil(t, "all spans have arrived", func() error {
				if spans, _ = r.got(); len(spans) < len(p.calls) {
					return fmt.Errorf("%d of %d", len(spans), len(p.calls))
				}
				return nil
			})
			if len(spans) != len(p.calls) {
				t.Errorf("%d spans of %d calls", len(spans), len(p.calls))
			}
			p.check(t, spans)
			testenv.UntilNil(t, "the counts are the program's", func() error {
				_, metrics := r.got()
				got, hist, coarse := map[string]float64{}, map[string]float64{}, map[string]float64{}
				for _, d := range metrics["figures_calls"].GetSum().GetDataPoints() {
					got[textOf(d.Attributes, "function_name")] = d.GetAsDouble()
				}
				for _, d := range metrics["figures_duration"].GetExponentialHistogram().GetDataPoints() {
					n := d.ZeroCount
					for _, c := range d.Positive.BucketCounts {
						n += c
					}
					if n != d.Count || d.GetSum() <= 0 {
						t.Errorf("%d in buckets of %d, sum %v", n, d.Count, d.GetSum())
					}
					hist[textOf(d.Attributes, "function_name")] = float64(n)
				}
				for _, d := range metrics["figures_coarse"].GetHistogram().GetDataPoints() {
					var n uint64
					for _, c := range d.BucketCounts {
						n += c
					}
					coarse[textOf(d.Attributes, "function_name")] = float64(n)
				}
				if cost := metrics["endoscope.export.overhead"].GetSum().GetDataPoints(); len(cost) != 1 || cost[0].GetAsDouble() <= 0 {
					return fmt.Errorf("the overhead is %v", cost)
				}
				if want := p.count(); !maps.Equal(got, want) || !maps.Equal(hist, want) || !maps.Equal(coarse, want) {
					return fmt.Errorf("%v, %v, %v, want %v", got, hist, coarse, want)
				}
				if m := metrics["figures_calls"].GetSum(); !m.IsMonotonic || m.AggregationTemporality != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
					t.Error("the counter is not cumulative")
				}
				return nil
			})
			rows, _ := run(t, e, "SELECT export, state, lost, error FROM sys.exports ORDER BY export")
			if got := fmt.Sprint(rows); got != "[[figures running 0 NULL] [spans running 0 NULL]]" {
				t.Error(got)
			}
		})
	}
}

// interleaved is a Go program whose goroutines wait within their calls, so that the calls of
// several of them are in progress on one thread.
const interleaved = `package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"
)

var sink int

//go:noinline
func inner(n int) { sink += n }

//go:noinline
func middle(n int) {
	time.Sleep(time.Duration(n%3+1) * time.Millisecond)
	inner(n)
	time.Sleep(time.Millisecond)
}

//go:noinline
func outer(n int) {
	inner(n)
	middle(n)
	inner(n)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	for {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() { outer(n) })
		}
		all.Wait()
		fmt.Println("done")
	}
}
`

// The parent of a goroutine's call is a call of that goroutine, also when threads execute
// those of several in turn.
func TestOTLPFollowsGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	r := newReceiver()
	addr, _ := r.listen(t, "127.0.0.1:0")
	cmd := exec.Command(testenv.CompileGoText(t, interleaved))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pid := testenv.Run(t, cmd)
	e := newEngine(t, server.Options{})
	run(t, e, fmt.Sprintf("CREATE EXPORT spans TO 'otlp://%s' WITH (%s) AS SELECT function_name, arg0 AS number FROM function_duration WHERE pid = %d AND function_name IN ('main.inner', 'main.middle', 'main.outer')", addr, patient, pid))
	fmt.Fprintln(in, "go")
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	testenv.UntilNil(t, "all spans have arrived", func() error {
		spans, _ := r.got()
		byID, got := map[string]*tracepb.Span{}, map[string]int{}
		for _, s := range spans {
			byID[string(s.SpanId)] = s
		}
		for _, s := range spans {
			up, of := byID[string(s.ParentSpanId)], "nothing"
			if up != nil {
				if of = up.Name; integer(up, "number") != integer(s, "number") {
					of = "another goroutine's " + of
				}
			}
			got[s.Name+" in "+of]++
		}
		want := map[string]int{"main.outer in nothing": 200, "main.middle in main.outer": 200, "main.inner in main.outer": 400, "main.inner in main.middle": 200}
		if !maps.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
	if r.attrs == nil || textOf(r.attrs, "host.name") == "" || textOf(r.attrs, "process.executable.path") == "" {
		t.Errorf("the resource is %v", r.attrs)
	}
}

// Entries and returns become the same spans, and the parent is known at the entry.
func TestOTLPReceivesEvents(t *testing.T) {
	testenv.NeedUprobes(t)
	r := newReceiver()
	addr, _ := r.listen(t, "127.0.0.1:0")
	p := startRequests(t)
	e := newEngine(t, server.Options{})
	run(t, e, fmt.Sprintf("CREATE EXPORT spans TO 'otlp://%s' WITH (%s) AS SELECT * FROM function_call WHERE pid = %d AND function_name IN ('serve', 'work', 'leaf')", addr, patient, p.pid))
	p.serve(t, 100)
	want := map[string]int{}
	for _, c := range p.calls {
		want[c.name+" in "+p.calls[c.parent].name]++
	}
	testenv.UntilNil(t, "all spans have arrived", func() error {
		spans, _ := r.got()
		names := map[string]string{}
		for _, s := range spans {
			names[string(s.SpanId)] = s.Name
		}
		got := map[string]int{}
		for _, s := range spans {
			got[s.Name+" in "+names[string(s.ParentSpanId)]]++
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
}

// While a receiver is away spans wait; those beyond the queue are counted: no call is missing
// without being counted. A request whose answer was lost is sent again, with the same ids.
func TestOTLPReceiverIsKilled(t *testing.T) {
	testenv.NeedUprobes(t)
	r := newReceiver()
	addr, stop := r.listen(t, "127.0.0.2:0") // of which no other program takes a port
	p := startRequests(t)
	e := newEngine(t, server.Options{})
	run(t, e, fmt.Sprintf("CREATE EXPORT spans TO 'otlp://%s' WITH (queue => 1000, timeout => 1s) "+spansOfRequests, addr, p.pid))
	p.serve(t, 10)
	testenv.Until(t, "spans arrive", func() bool { return r.distinct() == len(p.calls) })
	stop()
	p.serve(t, 200)
	testenv.UntilNil(t, "spans are dropped, and counted", func() error {
		rows, _ := run(t, e, "SELECT lost, error FROM sys.exports")
		if rows[0][0] == "0" || rows[0][1] == "NULL" {
			return fmt.Errorf("%v", rows)
		}
		return nil
	})
	r.listen(t, addr)
	testenv.UntilNil(t, "the others arrive", func() error {
		rows, _ := run(t, e, "SELECT lost, sent FROM sys.exports")
		arrived := r.distinct()
		lost, _ := strconv.Atoi(rows[0][0])
		if arrived+lost != len(p.calls) {
			return fmt.Errorf("%d arrived, %d lost, of %d; sent %s", arrived, lost, len(p.calls), rows[0][1])
		}
		return nil
	})
}

// A receiver that accepts connections and never answers stops neither the query nor DROP.
func TestOTLPReceiverNeverAnswers(t *testing.T) {
	testenv.NeedUprobes(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := startRequests(t)
	e := newEngine(t, server.Options{})
	run(t, e, fmt.Sprintf("CREATE EXPORT spans TO 'otlp://%s' WITH (queue => 100) "+spansOfRequests, l.Addr(), p.pid))
	p.serve(t, 300)
	testenv.UntilNil(t, "spans beyond the queue are counted", func() error {
		rows, _ := run(t, e, "SELECT lost, sent FROM sys.exports")
		// All but those in the queue, and in the request under way.
		if lost, _ := strconv.Atoi(rows[0][0]); lost < len(p.calls)-100-512 || rows[0][1] != "0" {
			return fmt.Errorf("%v of %d", rows, len(p.calls))
		}
		return nil
	})
	run(t, e, "DROP EXPORT spans")
	if rows, _ := run(t, e, "SHOW EXPORTS"); len(rows) != 0 {
		t.Errorf("%v", rows)
	}
}
