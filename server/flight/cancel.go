package flight

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/flight"
)

// CancelFlightInfo abandons the result of a FlightInfo. When it returns,
// nothing of the result is attached.
func (s *Service) CancelFlightInfo(ctx context.Context, r *flight.CancelFlightInfoRequest) (flight.CancelFlightInfoResult, error) {
	x, err := s.session(ctx)
	if err != nil {
		return flight.CancelFlightInfoResult{}, err
	}
	how := flight.CancelStatusNotCancellable
	for _, e := range r.GetInfo().GetEndpoint() {
		handle, ok := statementHandle(e.GetTicket())
		if !ok {
			continue
		}
		if res := x.result(string(handle)); res != nil {
			res.close()
			x.remove(string(handle))
		}
		how = flight.CancelStatusCancelled
	}
	return flight.CancelFlightInfoResult{Status: how}, nil
}
