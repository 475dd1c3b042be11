package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"endoscope/parser"
	"endoscope/server/wire"
)

// Options of a connection.
type Options struct {
	TLS      *tls.Config // nil: the connection is not encrypted
	Token    string      // authenticates the caller; needs TLS, a unix socket, or Insecure
	Insecure bool        // send the token even if others can read it
	// Launch starts a program on this machine for a session whose target it becomes;
	// the server must be on this machine too. nil: sessions cannot start programs.
	Launch func(argv []string) (Command, error)
	// Dial are further gRPC options.
	Dial []grpc.DialOption
}

// Command is a program that was started for a session and is stopped before its first
// instruction.
type Command interface {
	PID() int
	Release() error // resumes it; may be called repeatedly
	End() error     // ends it, whether released or not
}

// A server without messages for silence is asked whether it is there. If it does not answer within
// answering, it counts as gone: its machine, or this one, may be overloaded.
const (
	silence   = 5 * time.Second
	answering = 15 * time.Second
)

// maxMessage is the maximum size of a received message: a dictionary, or a record.
const maxMessage = 256 << 20

// Engine is the engine of a server.
type Engine struct {
	target string
	addr   string // as specified by the user
	local  bool   // certainly on this machine
	plain  bool   // unencrypted TCP
	tls    *tls.Config
	launch func(argv []string) (Command, error)
	opts   []grpc.DialOption
}

// Dial returns the engine at an address: host:port, or unix:/path of a socket. It
// connects when a session is opened.
func Dial(addr string, o Options) (*Engine, error) {
	target, local, socket := "passthrough:///"+addr, true, true
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		target = "unix:" + strings.TrimPrefix(path, "//")
	} else if strings.HasPrefix(addr, "/") {
		target = "unix:" + addr
	} else {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("%s is not an address: use host:port, or the path of a socket", addr)
		}
		ip := net.ParseIP(host)
		local = host == "localhost" || ip != nil && ip.IsLoopback()
		socket = false
	}
	if o.Token != "" && o.TLS == nil && !socket && !o.Insecure {
		return nil, fmt.Errorf("a token is not sent to %s unencrypted", addr)
	}
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	e := &Engine{target: target, addr: addr, local: local, plain: o.TLS == nil && !socket, tls: o.TLS, launch: o.Launch, opts: append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silence, Timeout: answering, PermitWithoutStream: true}),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}, o.Dial...)}
	if o.Token != "" {
		e.opts = append(e.opts, grpc.WithPerRPCCredentials(token{o.Token, o.TLS != nil}))
	}
	return e, nil
}

// token authenticates the caller.
type token struct {
	text   string
	secure bool // must not be sent unencrypted
}

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + t.text}, nil
}

func (t token) RequireTransportSecurity() bool { return t.secure }

// Close implements wire.Engine. It does nothing: connections belong to sessions.
func (e *Engine) Close() error { return nil }

// NewSession connects, and opens a session.
func (e *Engine) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	var command Command
	if len(o.Command) > 0 {
		if !e.local || e.launch == nil {
			return nil, &parser.Error{Msg: fmt.Sprintf("%s cannot be started for an engine on another machine", o.Command[0]),
				Hint: "start it there, and use --process", Pos: parser.Span{Start: -1}}
		}
		var err error
		if command, err = e.launch(o.Command); err != nil {
			return nil, err
		}
		o.PID, o.Started = command.PID(), true
	}
	conn, err := grpc.NewClient(e.target, e.opts...)
	if err != nil {
		return nil, errors.Join(err, end(command))
	}
	s := &session{conn: conn, client: flight.NewFlightServiceClient(conn), addr: e.addr, plain: e.plain, command: command, releasing: releasing, ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(ctx, o); err != nil {
		s.cancel()
		_ = conn.Close()
		_ = end(command)
		return nil, e.explain(ctx, err)
	}
	return s, nil
}

// end ends a session's command, if it has one.
func end(c Command) error {
	if c == nil {
		return nil
	}
	return c.End()
}

var _ wire.Engine = (*Engine)(nil)
