package flight

import (
	"encoding/json"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/server/wire"
)

// notesQueued is how many notes may wait for a client. Further ones are
// dropped, and the client is told how many.
const notesQueued = 256

// openSession opens a session that lasts as long as the call, and streams the
// session's notes.
func (s *Service) openSession(body []byte, stream flight.FlightService_DoActionServer) error {
	var o wire.SessionOptions
	if err := json.Unmarshal(body, &o); err != nil {
		return status.Error(codes.InvalidArgument, "the session's options cannot be read")
	}
	notes := newNotes()
	x, err := s.newSession(stream.Context(), wire.Options{PID: o.PID, Started: o.Started, Process: o.Process, Exe: o.Exe,
		Live: max(0, time.Duration(o.Live)), Marks: o.Marks, Notify: notes.add, Armed: notes.arm})
	if err != nil {
		return err
	}
	name := newName()
	s.mu.Lock()
	s.sessions[name] = x
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.sessions, name)
		s.mu.Unlock()
		x.end()
	}()
	if err := answer(stream, wire.Hello{Session: name, Version: s.o.Version, Engine: s.name}); err != nil {
		return err
	}
	beats := time.NewTicker(beat)
	defer beats.Stop()
	stop := s.stop
	var ending <-chan time.Time // ticks while senders finish the results
	for {
		select {
		case text := <-notes.lines:
			if err := notes.send(stream, text); err != nil {
				return err
			}
		case <-notes.armed:
			if err := answer(stream, wire.Note{Armed: true}); err != nil {
				return err
			}
		case <-beats.C:
			if err := answer(stream, wire.Note{}); err != nil {
				return err
			}
		case <-stop:
			stop = nil
			t := time.NewTicker(20 * time.Millisecond)
			defer t.Stop()
			ending = t.C
		case <-ending:
			if !x.busy() {
				return status.Error(codes.Unavailable, "the server is shutting down")
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// answer sends one result of an action.
func answer(stream flight.FlightService_DoActionServer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return stream.Send(&flight.Result{Body: body})
}

// ask answers a question of a client.
func (x *session) ask(body []byte, stream flight.FlightService_DoActionServer) error {
	var q wire.Question
	if err := json.Unmarshal(body, &q); err != nil {
		return status.Error(codes.InvalidArgument, "the question cannot be read")
	}
	a := wire.Answer{Time: time.Now().UnixNano()}
	switch q.Kind {
	case "clock":
	case "":
		a.Lines = x.Info()
	default:
		a.Lines = x.Complete(stream.Context(), q.Kind, q.Of, q.Prefix)
	}
	return answer(stream, a)
}
