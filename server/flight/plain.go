package flight

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/server/wire/columnar"
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
	if err == nil && !columnar.IsPlain(d.GetDataHeader()) {
		return nil, status.Error(codes.InvalidArgument, "values must be sent without compression")
	}
	return d, err
}
