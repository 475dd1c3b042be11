package flight

import (
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/server/wire/columnar"
)

// DoPut receives parameter values. Their headers are checked, since arrow-go
// allocates what they say. The first message must say what the values are for:
// arrow-go takes that for granted.
func (h *handler) DoPut(stream flight.FlightService_DoPutServer) error {
	in := &checked{FlightService_DoPutServer: stream}
	first, err := in.Recv()
	switch {
	case errors.Is(err, io.EOF), err == nil && first.GetFlightDescriptor() == nil:
		return status.Error(codes.InvalidArgument, "the first message has no descriptor of the command")
	case err != nil:
		return err
	}
	in.first = first
	return h.FlightServer.DoPut(in)
}

// checked is a stream that rejects damaged and compressed records.
type checked struct {
	flight.FlightService_DoPutServer
	first *flight.FlightData // already received; nil: none
}

func (c *checked) Recv() (*flight.FlightData, error) {
	if d := c.first; d != nil {
		c.first = nil
		return d, nil
	}
	d, err := c.FlightService_DoPutServer.Recv()
	if err != nil {
		return d, err
	}
	if err := columnar.CheckHeader(d.GetDataHeader()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "values cannot be read: %v", err)
	}
	return d, nil
}
