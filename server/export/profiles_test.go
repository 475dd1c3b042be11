package export_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"endoscope/probes/testenv"
	"endoscope/server"
)

// profileStore keeps the profiles that it gets, as Pyroscope or as Parca. It reads messages by
// field numbers of their published schemas.
type profileStore struct {
	mu     sync.Mutex
	got    []*profile.Profile
	labels map[string]string // of the last one
	err    error
}

// fields returns the length-delimited fields of a message with a number.
func fields(b []byte, number protowire.Number) (all [][]byte) {
	for len(b) > 0 {
		n, t, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil
		}
		b = b[size:]
		if t == protowire.BytesType && n == number {
			v, _ := protowire.ConsumeBytes(b)
			all = append(all, v)
		}
		if size = protowire.ConsumeFieldValue(n, t, b); size < 0 {
			return nil
		}
		b = b[size:]
	}
	return all
}

// take keeps the series of a request: field number of the request's series, and whether the
// labels are in a message of their own.
func (s *profileStore) take(request []byte, number protowire.Number, nested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, series := range fields(request, number) {
		holder := series
		if nested {
			holder = fields(series, 1)[0]
		}
		s.labels = map[string]string{}
		for _, l := range fields(holder, 1) {
			s.labels[string(fields(l, 1)[0])] = string(fields(l, 2)[0])
		}
		for _, sample := range fields(series, 2) {
			p, err := profile.Parse(bytes.NewReader(fields(sample, 1)[0]))
			if err != nil {
				s.err = err
				return
			}
			s.got = append(s.got, p)
		}
	}
}

func (s *profileStore) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	if q.Method != http.MethodPost || q.URL.Path != "/push.v1.PusherService/Push" || q.Header.Get("Content-Type") != "application/proto" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.take(body, 1, false)
}

type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(b)
	return nil
}
func (rawCodec) Name() string { return "proto" }

// listen serves gRPC as Parca does.
func (s *profileStore) listen(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if name, _ := grpc.MethodFromServerStream(stream); name != "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw" {
			return fmt.Errorf("there is no %s", name)
		}
		var request, answer []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		s.take(request, 2, true)
		return stream.SendMsg(&answer)
	}))
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// sums returns the sums of the first value by the leaf's function.
func (s *profileStore) sums(t testing.TB) map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		t.Fatal(s.err)
	}
	n := map[string]float64{}
	for _, p := range s.got {
		if p.SampleType[0].Type != "calls" || p.SampleType[1].Type != "duration" || p.SampleType[1].Unit != "nanoseconds" || p.TimeNanos == 0 || p.DurationNanos <= 0 {
			t.Fatalf("%v from %d for %d", p.SampleType, p.TimeNanos, p.DurationNanos)
		}
		for _, x := range p.Sample {
			n[x.Location[0].Line[0].Function.Name] += float64(x.Value[0])
			if x.Value[1] <= 0 {
				t.Fatalf("a duration of %d", x.Value[1])
			}
		}
	}
	return n
}

const profileOfRequests = "AS SELECT stack, COUNT(*) AS calls, SUM(duration), function_name AS name FROM function_duration WHERE pid = %d AND function_name IN ('serve', 'work', 'leaf') GROUP BY stack, name EMIT EVERY 200ms"

// A store of profiles has every call once, as the program itself has logged them, also when
// the store was away for a while.
func TestProfilesAreStored(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, protocol := range []string{"pyroscope", "parca"} {
		t.Run(protocol, func(t *testing.T) {
			s := &profileStore{}
			var to string
			away := &gate{next: s}
			if protocol == "parca" {
				to = "parca://" + s.listen(t)
			} else {
				h := httptest.NewServer(away)
				defer h.Close()
				to = "pyroscope+" + h.URL
			}
			p := startRequests(t)
			e := newEngine(t, server.Options{})
			run(t, e, fmt.Sprintf("CREATE EXPORT cpu TO '%s' "+profileOfRequests, to, p.pid))
			arrived := func() error {
				got, want := s.sums(t), p.count()
				for name := range want {
					if got[name] != want[name] || len(got) != len(want) {
						return fmt.Errorf("%v, want %v", got, want)
					}
				}
				return nil
			}
			p.serve(t, 20)
			testenv.UntilNil(t, "all calls arrive", arrived)
			away.set(protocol == "pyroscope")
			p.serve(t, 20)
			if protocol == "pyroscope" {
				testenv.UntilNil(t, "the store's absence is told", func() error {
					rows, _ := run(t, e, "SELECT error FROM sys.exports")
					if !strings.Contains(rows[0][0], "503 Service Unavailable") {
						return fmt.Errorf("%v", rows)
					}
					return nil
				})
			}
			away.set(false)
			testenv.UntilNil(t, "later calls arrive", arrived)
			if s.labels["__name__"] != "cpu" || s.labels["service_name"] == "" || s.labels["instance"] == "" || s.labels["name"] == "" || s.labels["stack"] != "" {
				t.Errorf("labels %v", s.labels)
			}
		})
	}
}

// gate refuses requests for a while.
type gate struct {
	mu   sync.Mutex
	shut bool
	next http.Handler
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	g.shut = shut
	g.mu.Unlock()
}

func (g *gate) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	g.next.ServeHTTP(w, q)
}
