package flight

import (
	"context"
	"encoding/binary"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"endoscope/server/wire/columnar"
)

// messages are those that send a record of 1,000 numbers.
type messages []*flight.FlightData

func (m *messages) Send(d *flight.FlightData) error {
	*m = append(*m, proto.Clone(d).(*flight.FlightData)) // its memory is reused
	return nil
}

func numbers(t *testing.T, o ...ipc.Option) messages {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for range 1000 {
		b.Field(0).(*array.Int64Builder).Append(7)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	var sent messages
	w := flight.NewRecordWriter(&sent, append(o, ipc.WithSchema(schema))...)
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sent
}

// TestIsPlain: compressed records are recognized, and a truncated header does
// not count as plain.
func TestHeadersAreChecked(t *testing.T) {
	for name, o := range map[string][]ipc.Option{"plain": nil, "zstd": {ipc.WithZstd()}, "lz4": {ipc.WithLZ4()}} {
		sent := numbers(t, o...)
		if len(sent) != 2 {
			t.Fatalf("%d messages", len(sent))
		}
		if schema, record := columnar.CheckHeader(sent[0].DataHeader), columnar.CheckHeader(sent[1].DataHeader); schema != nil || (record == nil) != (o == nil) {
			t.Errorf("%s: the schema: %v, the record: %v", name, schema, record)
		}
		for n := range sent[1].DataHeader {
			_ = columnar.CheckHeader(sent[1].DataHeader[:n]) // does not panic
		}
	}
}

// TestInflatedSchemaIsRefused: arrow-go allocates 64 bytes for each field that a
// schema says it has.
func TestInflatedSchemaIsRefused(t *testing.T) {
	const fields = 6
	header := numbers(t)[0].DataHeader
	message := flatbuffers.Table{Bytes: header, Pos: flatbuffers.GetUOffsetT(header)}
	var schema flatbuffers.Table
	message.Union(&schema, flatbuffers.UOffsetT(message.Offset(8)))
	length := schema.Vector(flatbuffers.UOffsetT(schema.Offset(fields))) - 4
	if n := binary.LittleEndian.Uint32(header[length:]); n != 1 {
		t.Fatalf("%d fields, expected 1", n)
	}
	for _, n := range []uint32{1 << 20, 1 << 31, 1<<32 - 1} {
		binary.LittleEndian.PutUint32(header[length:], n)
		if err := columnar.CheckHeader(header); err == nil {
			t.Errorf("a schema of %d fields in %d bytes is accepted", n, len(header))
		}
	}
}

// source returns messages, as a client's stream does.
type source struct {
	flight.FlightService_DoPutServer
	left messages
}

func (s *source) Context() context.Context { return context.Background() }
func (s *source) Recv() (*flight.FlightData, error) {
	if len(s.left) == 0 {
		return nil, io.EOF
	}
	d := s.left[0]
	s.left = s.left[1:]
	return d, nil
}

// TestInflatedRecordIsRefused: a record of a hundred bytes that declares 32 TiB
// is refused before memory is allocated for it.
func TestInflatedRecordIsRefused(t *testing.T) {
	sent := numbers(t, ipc.WithZstd())
	binary.LittleEndian.PutUint64(sent[1].DataBody, 1<<45)
	r, err := flight.NewRecordReader(&checked{FlightService_DoPutServer: &source{left: sent}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if r.Next() || status.Code(r.Err()) != codes.InvalidArgument {
		t.Errorf("it was read: %v", r.Err())
	}
}
