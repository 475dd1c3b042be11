package remote

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"

	"endoscope/server/wire"
)

// cutting is a server that ends each call as if it were over, without what the protocol
// requires at its end.
type cutting struct {
	flight.BaseFlightServer
	hang chan struct{} // keeps sessions open until it is closed
}

func (s *cutting) DoAction(a *flight.Action, stream flight.FlightService_DoActionServer) error {
	if a.Type != wire.ActionSession {
		return nil
	}
	body, err := json.Marshal(wire.Hello{Session: "1", Engine: "cutting"})
	if err != nil {
		return err
	}
	if err := stream.Send(&flight.Result{Body: body}); err != nil {
		return err
	}
	select {
	case <-s.hang:
	case <-stream.Context().Done():
	}
	return nil
}

func (*cutting) DoGet(*flight.Ticket, flight.FlightService_DoGetServer) error { return nil }

// A call that the server ends early is an error. It is not the end of a result, and no answer.
func TestAServerThatEndsCallsEarly(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	of := &cutting{hang: make(chan struct{})}
	server := grpc.NewServer()
	flight.RegisterFlightServiceServer(server, of)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	e, err := Dial("unix:"+listener.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), listener.Addr().String()) {
			t.Errorf("%s: %v (%T), want an error that names the server", what, err, err)
		}
	}
	res, err := s.Execute(t.Context(), "SELECT 1")
	if err == nil {
		_, err = res.Next(t.Context())
		_ = res.Close()
	}
	check("Execute", err)
	_, err = s.Describe(t.Context(), "SELECT 1")
	check("Describe", err)
	close(of.hang)
	<-s.(*session).ended
	check("the session", s.(*session).lost)
}
