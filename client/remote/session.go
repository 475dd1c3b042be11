package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// session is a wire.Session at the server.
type session struct {
	conn    *grpc.ClientConn
	client  flight.FlightServiceClient
	addr    string
	plain   bool    // unencrypted TCP
	marks   bool    // wire.Options.Marks
	engine  string  // identifies the engine
	command Command // held until something is armed; nil: none
	// releasing is how long Close of a result waits.
	releasing time.Duration

	ctx    context.Context // of its calls: it names the session
	cancel context.CancelFunc
	ended  chan struct{} // closed when the session's messages end

	names atomic.Uint64 // of results
	once  sync.Once
	lost  error // why the messages ended; set before ended is closed
}

// open opens the session at the server and starts to listen to its messages.
func (s *session) open(ctx context.Context, o wire.Options) error {
	body, err := json.Marshal(wire.SessionOptions{PID: o.PID, Started: o.Started, Process: o.Process, Exe: o.Exe, Live: int64(o.Live), Marks: o.Marks})
	if err != nil {
		return err
	}
	s.marks = o.Marks
	defer context.AfterFunc(ctx, s.cancel)()
	says, err := s.client.DoAction(s.ctx, &flight.Action{Type: wire.ActionSession, Body: body})
	if err != nil {
		return s.errorOf(err, "")
	}
	var hello wire.Hello
	if err := receive(says, &hello); err != nil {
		return s.errorOf(err, "")
	}
	s.engine = hello.Engine
	s.ctx = metadata.AppendToOutgoingContext(s.ctx, wire.SessionHeader, hello.Session)
	go s.listen(says, o)
	return nil
}

// Engine implements wire.Identified.
func (s *session) Engine() string { return s.engine }

// receive reads the next result of an action.
func receive(stream flight.FlightService_DoActionClient, v any) error {
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	return json.Unmarshal(r.GetBody(), v)
}

// listen passes on the session's messages until it ends.
func (s *session) listen(says flight.FlightService_DoActionClient, o wire.Options) {
	defer close(s.ended)
	for {
		var n wire.Note
		if err := receive(says, &n); err != nil {
			s.lost = s.errorOf(err, "")
			return
		}
		if n.Armed && s.command != nil {
			_ = s.command.Release() // the command may have been killed meanwhile
		}
		if n.Armed && o.Armed != nil {
			o.Armed()
		}
		if n.Text != "" && o.Notify != nil {
			o.Notify(n.Text)
		}
	}
}

// closing is how long Close waits for the server.
const closing = 2 * time.Second

// Close ends the session. It returns when nothing of it is attached, or when the
// server does not answer: the server then ends the session when it notices.
func (s *session) Close() error {
	var err error
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		_ = s.act(ctx, wire.ActionClose, wire.Statement{}, nil)
		cancel()
		s.cancel()
		<-s.ended
		err = errors.Join(s.conn.Close(), end(s.command))
	})
	return err
}

// Execute implements wire.Session.
func (s *session) Execute(ctx context.Context, text string, args ...types.Value) (wire.Result, error) {
	r, err := s.begin(ctx, wire.Statement{Text: text, Args: columnar.EncodeValues(args), Fragments: wire.FragmentVersion})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ExecuteShare implements wire.Sharer.
func (s *session) ExecuteShare(ctx context.Context, host, text string, args ...types.Value) (wire.Result, error) {
	r, err := s.begin(ctx, wire.Statement{Text: text, Args: columnar.EncodeValues(args), Host: host, Shares: wire.ShareVersion})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Describe implements wire.Session.
func (s *session) Describe(ctx context.Context, text string) (d wire.Description, err error) {
	err = s.act(ctx, wire.ActionDescribe, wire.Statement{Text: text}, &d)
	return d, err
}

// Triggered implements wire.Session. The rows are requested from the server by the
// first Next.
func (s *session) Triggered(follow bool) wire.Result {
	which := "all"
	if follow {
		which = "follow"
	}
	return &triggered{s: s, which: which}
}

// newName returns a name for a result.
func (s *session) newName() string { return strconv.FormatUint(s.names.Add(1), 10) }

// Complete implements wire.Session. It returns nothing if the server does not answer.
func (s *session) Complete(ctx context.Context, kind, of, prefix string) []string {
	lines, err := s.ask(ctx, wire.Question{Kind: kind, Of: of, Prefix: prefix})
	if err != nil {
		return nil
	}
	return lines
}

// Clock returns how far the server's clock is ahead of this machine's, and the
// uncertainty: half of the fastest of a few round trips.
func (s *session) Clock(ctx context.Context) (ahead, uncertain time.Duration, err error) {
	for i := range 5 {
		var a wire.Answer
		asked := time.Now()
		if err := s.act(ctx, wire.ActionAsk, wire.Question{Kind: "clock"}, &a); err != nil {
			return 0, 0, err
		}
		took := time.Since(asked)
		if half := took / 2; i == 0 || half < uncertain {
			ahead, uncertain = time.Duration(a.Time-asked.Add(half).UnixNano()), half
		}
	}
	return ahead, uncertain, nil
}

// Info implements wire.Session.
func (s *session) Info() []string {
	ctx, cancel := context.WithTimeout(s.ctx, silence)
	defer cancel()
	lines, err := s.ask(ctx, wire.Question{})
	if err != nil && ctx.Err() != nil && s.ctx.Err() == nil {
		return []string{fmt.Sprintf("engine: at %s, which has not answered for %v", s.addr, silence)}
	}
	if err != nil {
		return []string{"engine: at " + s.addr + ", " + err.Error()}
	}
	if len(lines) > 0 { // the server reports its own address
		lines[0] = "engine: at " + s.addr
	}
	return lines
}

func (s *session) ask(ctx context.Context, q wire.Question) ([]string, error) {
	var a wire.Answer
	err := s.act(ctx, wire.ActionAsk, q, &a)
	return a.Lines, err
}

// act performs an action of the session, and reads the answer unless answer is nil.
// It ends with ctx and with the session.
func (s *session) act(ctx context.Context, action string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	statement := ""
	if st, ok := body.(wire.Statement); ok {
		statement = st.Text
	}
	call, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	stream, err := s.client.DoAction(call, &flight.Action{Type: action, Body: text})
	if err != nil {
		return s.errorOf(err, "")
	}
	if answer != nil {
		return s.errorOf(receive(stream, answer), statement)
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return s.errorOf(err, "")
		}
	}
}
