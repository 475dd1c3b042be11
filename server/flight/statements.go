package flight

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// GetFlightInfoStatement executes a statement. The result waits until its
// ticket is used.
func (s *Service) GetFlightInfoStatement(ctx context.Context, c flightsql.StatementQuery, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	x, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	res, err := x.Execute(ctx, c.GetQuery())
	if err != nil {
		return nil, statusOf(err, c.GetQuery())
	}
	return x.info(res, c.GetQuery(), d)
}

// info returns the FlightInfo of a result.
func (x *session) info(res wire.Result, statement string, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	cols := res.Columns()
	name, err := x.offer(res, statement)
	if err != nil {
		return nil, err
	}
	ticket, err := flightsql.CreateStatementQueryTicket([]byte(name))
	if err != nil {
		return nil, err
	}
	return &flight.FlightInfo{
		Schema:           flight.SerializeSchema(columnar.Schema(cols, columnar.Plain), memory.DefaultAllocator),
		FlightDescriptor: d,
		Endpoint:         []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: ticket}}},
		TotalRecords:     -1,
		TotalBytes:       -1,
	}, nil
}

// DoPutCommandStatementUpdate executes a statement and returns when it has
// ended.
func (s *Service) DoPutCommandStatementUpdate(ctx context.Context, c flightsql.StatementUpdate) (int64, error) {
	x, err := s.session(ctx)
	if err != nil {
		return 0, err
	}
	res, err := x.Execute(ctx, c.GetQuery())
	if err != nil {
		return 0, statusOf(err, c.GetQuery())
	}
	n, err := drain(ctx, res)
	return n, statusOf(err, c.GetQuery())
}

// drain reads a result to its end and returns the number of its rows.
func drain(ctx context.Context, res wire.Result) (int64, error) {
	events := make(chan wire.Step)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go wire.Pump(ctx, res, events)
	defer func() { _ = res.Close() }()
	for st := range events {
		st.Drop()
		if st.Err != nil {
			return int64(res.Summary().Rows), ended(st.Err)
		}
	}
	return 0, ctx.Err()
}

// ended returns the error with which a result ended; nil if it ended normally.
func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
