package flight

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow/flight"
	flatbuffers "github.com/google/flatbuffers/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DoPut receives parameter values. They must not be compressed: a compressed
// record states itself how much memory it needs, whatever its size. The first
// message must say what the values are for: arrow-go takes that for granted.
func (h *handler) DoPut(stream flight.FlightService_DoPutServer) error {
	plain := &uncompressed{FlightService_DoPutServer: stream}
	first, err := plain.Recv()
	switch {
	case errors.Is(err, io.EOF), err == nil && first.GetFlightDescriptor() == nil:
		return status.Error(codes.InvalidArgument, "the first message has no descriptor of the command")
	case err != nil:
		return err
	}
	plain.first = first
	return h.FlightServer.DoPut(plain)
}

// uncompressed is a stream that rejects compressed records.
type uncompressed struct {
	flight.FlightService_DoPutServer
	first *flight.FlightData // already received; nil: none
}

func (u *uncompressed) Recv() (*flight.FlightData, error) {
	if d := u.first; d != nil {
		u.first = nil
		return d, nil
	}
	d, err := u.FlightService_DoPutServer.Recv()
	if err == nil && !isPlain(d.GetDataHeader()) {
		return nil, status.Error(codes.InvalidArgument, "values must be sent without compression")
	}
	return d, err
}

// Fields of Arrow's messages, as offsets in their vtables (format/Message.fbs,
// format/Schema.fbs), and kinds of messages.
const (
	messageKind      = 6  // Message.header_type
	messageHeader    = 8  // Message.header
	dictionaryRecord = 6  // DictionaryBatch.data
	recordCompressed = 10 // RecordBatch.compression

	kindDictionary = 2
	kindRecord     = 3
)

// isPlain reports whether the header of a message is not that of a compressed
// record. It is false for one that cannot be parsed.
func isPlain(header []byte) (plain bool) {
	if len(header) == 0 {
		return true
	}
	defer func() {
		if recover() != nil { // the FlatBuffers reader does not validate its input
			plain = false
		}
	}()
	message := flatbuffers.Table{Bytes: header, Pos: flatbuffers.GetUOffsetT(header)}
	kind, at := message.Offset(messageKind), message.Offset(messageHeader)
	if kind == 0 || at == 0 {
		return true
	}
	var record flatbuffers.Table
	message.Union(&record, flatbuffers.UOffsetT(at))
	switch message.GetByte(message.Pos + flatbuffers.UOffsetT(kind)) {
	case kindDictionary:
		data := record.Offset(dictionaryRecord)
		if data == 0 {
			return true
		}
		record.Pos = record.Indirect(record.Pos + flatbuffers.UOffsetT(data))
	case kindRecord:
	default:
		return true
	}
	return record.Offset(recordCompressed) == 0
}
