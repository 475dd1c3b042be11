package flight

import (
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// handler answers the calls of Flight. Calls of Flight SQL are forwarded to its
// service, except for results, which are streamed, and calls that only this
// project's client makes.
type handler struct {
	flight.FlightServer
	s *Service
}

// DoGet sends the result that a ticket names.
func (h *handler) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	handle, ok := statementHandle(t)
	if !ok {
		return h.FlightServer.DoGet(t, stream)
	}
	x, err := h.s.session(stream.Context())
	if err != nil {
		return err
	}
	var st wire.Statement
	if json.Unmarshal(handle, &st) == nil && st.Result != "" {
		return h.execute(x, &st, stream)
	}
	res, err := x.claim(string(handle))
	if err != nil {
		return err
	}
	defer x.remove(string(handle))
	form := columnar.Plain
	if v := metadata.ValueFromIncomingContext(stream.Context(), wire.StringsHeader); len(v) > 0 && v[0] == wire.StringsCoded {
		form = columnar.Coded
	}
	return h.s.send(stream.Context(), res, form, false, stream)
}

// statementHandle returns the statement handle of a ticket.
func statementHandle(t *flight.Ticket) ([]byte, bool) {
	var any anypb.Any
	if proto.Unmarshal(t.GetTicket(), &any) != nil {
		return nil, false
	}
	st, err := flightsql.GetStatementQueryTicket(t)
	if err != nil {
		return nil, false
	}
	return st.GetStatementHandle(), true
}

// execute executes a statement of this project's client and sends its result.
func (h *handler) execute(x *session, st *wire.Statement, stream flight.FlightService_DoGetServer) error {
	r := &result{statement: st.Text, taken: true}
	switch st.Triggered {
	case "":
		args, err := columnar.DecodeValues(st.Args)
		if err != nil {
			return status.Error(codes.InvalidArgument, "the values of parameters cannot be read")
		}
		res, err := x.executeFor(stream.Context(), st, args)
		if err != nil {
			return statusOf(err, st.Text)
		}
		r.Result = res
	default:
		r.Result = x.Triggered(st.Triggered == "follow")
	}
	if err := x.add(st.Result, r); err != nil {
		r.close()
		return err
	}
	defer x.remove(st.Result)
	return h.s.send(stream.Context(), r, columnar.Exact, x.marks, stream)
}

// DoAction executes the actions that only this project's client requests.
func (h *handler) DoAction(a *flight.Action, stream flight.FlightService_DoActionServer) error {
	switch a.GetType() {
	case wire.ActionSession:
		return h.s.openSession(a.GetBody(), stream)
	case wire.ActionAsk, wire.ActionDescribe, wire.ActionStop, wire.ActionClose:
		x, err := h.s.session(stream.Context())
		if err != nil {
			return err
		}
		if a.GetType() == wire.ActionAsk {
			return x.ask(a.GetBody(), stream)
		}
		var st wire.Statement
		if err := json.Unmarshal(a.GetBody(), &st); err != nil {
			return status.Error(codes.InvalidArgument, "the request cannot be read")
		}
		r := x.result(st.Result)
		switch {
		case a.GetType() == wire.ActionDescribe:
			d, err := x.Describe(stream.Context(), st.Text)
			if err != nil {
				return statusOf(err, st.Text)
			}
			return answer(stream, d)
		case a.GetType() == wire.ActionClose && st.Result == "":
			x.end()
		case r == nil: // the result has ended
		case a.GetType() == wire.ActionStop:
			r.Stop()
		default:
			r.close()
		}
		return nil
	}
	return h.FlightServer.DoAction(a, stream)
}
