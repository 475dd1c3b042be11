package remote_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"endoscope/client/remote"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// hostile is a server that answers with any bytes.
type hostile struct {
	arrowflight.BaseFlightServer
	mu      sync.Mutex // guards the fields below
	records []*arrowflight.FlightData
	answer  []byte
}

func (h *hostile) set(records []*arrowflight.FlightData, answer []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records, h.answer = records, answer
}

func (h *hostile) says() ([]*arrowflight.FlightData, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records, h.answer
}

// DoGet sends the records as every result.
func (h *hostile) DoGet(_ *arrowflight.Ticket, s arrowflight.FlightService_DoGetServer) error {
	records, _ := h.says()
	for _, r := range records {
		if err := s.Send(r); err != nil {
			return err
		}
	}
	return nil
}

// DoAction opens sessions, and answers everything else with the same bytes.
func (h *hostile) DoAction(a *arrowflight.Action, s arrowflight.FlightService_DoActionServer) error {
	_, answer := h.says()
	if a.Type != wire.ActionSession {
		return s.Send(&arrowflight.Result{Body: answer})
	}
	if err := s.Send(&arrowflight.Result{Body: []byte(`{"session":"x"}`)}); err != nil {
		return err
	}
	_ = s.Send(&arrowflight.Result{Body: answer})
	<-s.Context().Done()
	return nil
}

// pack encodes messages: the lengths of header, body and metadata, then these.
func pack(records []*arrowflight.FlightData) (b []byte) {
	for _, r := range records {
		for _, part := range [][]byte{r.DataHeader, r.DataBody, r.AppMetadata} {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(part)))
		}
		b = append(append(append(b, r.DataHeader...), r.DataBody...), r.AppMetadata...)
	}
	return b
}

// unpack is the reverse of pack for any bytes.
func unpack(b []byte) (records []*arrowflight.FlightData) {
	for len(b) >= 6 && len(records) < 100 {
		lengths, rest := b[:6], b[6:]
		var parts [3][]byte
		for i := range parts {
			n := min(int(binary.LittleEndian.Uint16(lengths[2*i:])), len(rest))
			parts[i], rest = rest[:n], rest[n:]
		}
		records = append(records, &arrowflight.FlightData{DataHeader: parts[0], DataBody: parts[1], AppMetadata: parts[2]})
		b = rest
	}
	return records
}

// recorded returns what a server sends as the result of a statement.
func recorded(t testing.TB, c arrowflight.FlightServiceClient, st wire.Statement) (records []*arrowflight.FlightData) {
	handle, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := flightsql.CreateStatementQueryTicket(handle)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.DoGet(t.Context(), &arrowflight.Ticket{Ticket: ticket})
	if err != nil {
		t.Fatal(err)
	}
	for {
		d, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, d)
	}
}

// FuzzHostileServer connects to a server that sends any bytes: each statement ends with a
// result or an error, and takes no memory that only the server's numbers ask for.
func FuzzHostileServer(f *testing.F) {
	real := serve(f, flight.Options{})
	conn, err := grpc.NewClient(real.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Fatal(err)
	}
	client := arrowflight.NewFlightServiceClient(conn)
	three := pack(recorded(f, client, wire.Statement{Result: "three", Text: "SELECT * FROM series(3)"}))
	f.Add(three, []byte("{}"))
	for i, text := range []string{"SELECT * FROM series(3)", "SHOW SETTINGS LIKE 'emit%'", "SET join_memory = 1MiB", "SELECT n % 2, count(*), avg(n) FROM series(9) GROUP BY n % 2"} {
		f.Add(pack(recorded(f, client, wire.Statement{Result: string(rune('a' + i)), Text: text, Fragments: wire.FragmentVersion})), []byte(`{"lines":["a"]}`))
	}
	f.Add([]byte{}, []byte(`{"text":"\u001b[2J","armed":true}`))
	f.Add(pack([]*arrowflight.FlightData{{DataHeader: []byte("\xff\xff\xff\xff"), AppMetadata: []byte(`{"kind":"begin"}`)}}), []byte("{"))
	_ = conn.Close()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	h, server := &hostile{}, grpc.NewServer()
	arrowflight.RegisterFlightServiceServer(server, h)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	f.Cleanup(func() {
		server.Stop()
		<-done
	})
	e, err := remote.Dial(l.Addr().String(), remote.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, stream, answer []byte) {
		if len(stream)+len(answer) > 1<<16 {
			return
		}
		h.set(unpack(stream), answer)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x, err := e.NewSession(ctx, wire.Options{Notify: func(string) {}, Armed: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = x.Describe(ctx, "SELECT 1")
		x.Complete(ctx, "stream", "", "")
		x.Info()
		rows := 0
		if r, err := x.Execute(ctx, "SELECT 1"); err == nil {
			r.Columns()
			for {
				ev, err := r.Next(ctx)
				if err != nil {
					break
				}
				if ev.Batch != nil {
					rows += ev.Batch.Len()
					for i := range ev.Batch.Len() {
						for c := range ev.Batch.Cols {
							ev.Batch.Cols[c].Value(ev.Batch.Row(i))
						}
					}
					ev.Batch.Release()
				}
			}
			r.Summary()
			r.Message()
			_ = r.Close()
		}
		_ = x.Close()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%d bytes of a server: %d were allocated", len(stream)+len(answer), n)
		}
		if string(stream) == string(three) && rows != 3 {
			t.Errorf("%d rows of a server's whole answer, expected 3", rows)
		}
		if ctx.Err() != nil {
			t.Errorf("it does not end")
		}
	})
}
