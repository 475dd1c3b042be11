package flight

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"endoscope/server/wire"
)

// capture stores the messages of a writer.
type capture []*flight.FlightData

func (c *capture) Send(d *flight.FlightData) error {
	*c = append(*c, &flight.FlightData{DataHeader: append([]byte(nil), d.DataHeader...), DataBody: append([]byte(nil), d.DataBody...)})
	return nil
}

// FuzzCalls sends calls with arbitrary contents: each is refused or answered,
// none causes an internal error, and the server survives.
func FuzzCalls(f *testing.F) {
	ticket, err := flightsql.CreateStatementQueryTicket([]byte(`{"result":"1","text":"SELECT $1 FROM series(3)","args":"AQI="}`))
	if err != nil {
		f.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "1", Type: arrow.BinaryTypes.String}}, nil))
	b.Field(0).(*array.StringBuilder).Append("x")
	var sent capture
	w := flight.NewRecordWriter(&sent, ipc.WithSchema(b.Schema()))
	if err := w.Write(b.NewRecordBatch()); err != nil {
		f.Fatal(err)
	}
	for _, m := range sent {
		f.Add(ticket, m.DataHeader, m.DataBody)
	}
	f.Add([]byte(`{"pid":-1}`), []byte(`{"kind":"stream","prefix":"\u0000"}`), []byte{})
	f.Add([]byte("\xff\xff\xff\xff"), []byte(`{"result":{}}`), []byte("\x00"))
	addr := serve(f, engine(f), Options{})
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	c := flight.NewFlightServiceClient(conn)
	f.Fuzz(func(t *testing.T, first, header, body []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a result may be endless
		defer cancel()
		heed := func(err error) {
			if err != nil && strings.Contains(err.Error(), "internal error of the server") {
				t.Error(err)
			}
		}
		drain := func(recv func() error) {
			for {
				if err := recv(); err != nil {
					heed(err)
					return
				}
			}
		}
		for _, bytes := range [][]byte{first, header} {
			if r, err := c.DoGet(ctx, &flight.Ticket{Ticket: bytes}); err == nil {
				drain(func() error { _, err := r.Recv(); return err })
			}
			_, err := c.GetFlightInfo(ctx, &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: bytes})
			heed(err)
			for _, action := range []string{wire.ActionAsk, wire.ActionDescribe, wire.ActionStop, "CreatePreparedStatement", "CancelFlightInfo"} {
				if r, err := c.DoAction(ctx, &flight.Action{Type: action, Body: bytes}); err == nil {
					drain(func() error { _, err := r.Recv(); return err })
				}
			}
		}
		put := func(messages ...*flight.FlightData) {
			p, err := c.DoPut(ctx)
			if err != nil {
				return
			}
			for _, m := range messages {
				_ = p.Send(m)
			}
			_ = p.CloseSend()
			drain(func() error { _, err := p.Recv(); return err })
		}
		command := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: first}
		put(&flight.FlightData{FlightDescriptor: command, DataHeader: sent[0].DataHeader, DataBody: sent[0].DataBody}, &flight.FlightData{DataHeader: header, DataBody: body})
		put(&flight.FlightData{FlightDescriptor: command, DataHeader: header, DataBody: body})
		put(&flight.FlightData{DataHeader: header, DataBody: body})
		put()
		alive, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r, err := c.DoAction(alive, &flight.Action{Type: wire.ActionAsk, Body: []byte("{}")})
		if err == nil {
			_, err = r.Recv()
		}
		if err != nil {
			t.Fatalf("it does not answer any more: %v", err)
		}
	})
}
