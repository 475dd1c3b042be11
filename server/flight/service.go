package flight

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"endoscope/server/wire"
)

// Access says who calls.
type Access interface {
	// Identify is asked at the beginning of each call, with the call's context:
	// it has the peer, and the metadata that the client sent. Refusals are gRPC
	// statuses.
	Identify(ctx context.Context) (*wire.User, error)
}

// Options of a service.
type Options struct {
	Access  Access // nil: whoever can connect is the user that the process runs as
	Log     *slog.Logger
	Version string
	// ClientTimeout is how long a client may be silent before its sessions end, how
	// long a result waits to be asked for, and a connection for a call of somebody
	// who is identified; 0: 10 s.
	ClientTimeout time.Duration
	// Unread is how many bytes of rows a result may hold for a client that does
	// not read them; 0: 16 MiB.
	Unread int64
}

// beat is how often a client that waits for rows hears that the server is there.
const beat = time.Second

// markEvery is how often a client hears how time passes, if it wants to.
const markEvery = 100 * time.Millisecond

// maxMessage is the longest message that is accepted: a statement, or parameters.
const maxMessage = 4 << 20

// Service serves one engine. It is safe for concurrent use.
type Service struct {
	flightsql.BaseServer
	engine wire.Engine
	name   string // which it is
	o      Options

	mu       sync.Mutex
	sessions map[string]*session // those of ActionSession
	servers  []*grpc.Server
	stopping bool
	stop     chan struct{} // closed: sessions end
}

// New returns a service that serves e to nobody yet.
func New(e wire.Engine, o Options) *Service {
	if o.ClientTimeout == 0 {
		o.ClientTimeout = 10 * time.Second
	}
	if o.Unread == 0 {
		o.Unread = 16 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{engine: e, name: newName(), o: o, sessions: map[string]*session{}, stop: make(chan struct{})}
	s.Alloc = memory.DefaultAllocator
	s.registerInfo()
	return s
}

// Serve serves the connections of a listener, which it closes, until Stop. The
// options are the listener's own: how its connections are encrypted, for one.
func (s *Service) Serve(l net.Listener, opts ...grpc.ServerOption) error {
	opts = append([]grpc.ServerOption{
		grpc.StatsHandler(&connections{s: s}),
		grpc.ChainUnaryInterceptor(s.identifyUnary),
		grpc.ChainStreamInterceptor(s.identifyStream),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.o.ClientTimeout / 2, Timeout: s.o.ClientTimeout / 2}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}, opts...)
	g := grpc.NewServer(opts...)
	flight.RegisterFlightServiceServer(g, &handler{FlightServer: flightsql.NewFlightServer(s), s: s})
	s.mu.Lock()
	stopping := s.stopping
	if !stopping {
		s.servers = append(s.servers, g)
	}
	s.mu.Unlock()
	if stopping {
		return errors.Join(grpc.ErrServerStopped, l.Close())
	}
	if err := g.Serve(meet{l, newStrangers(mostStrangers, s.o.ClientTimeout)}); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop refuses new calls, asks the queries that run to give what they have, and
// returns when their clients have it, or when ctx is done: then what is left is
// cut off. Nothing is attached when it returns.
func (s *Service) Stop(ctx context.Context) {
	s.mu.Lock()
	servers := s.servers
	s.servers, s.stopping = nil, true
	s.mu.Unlock()
	if servers == nil {
		return
	}
	close(s.stop)
	var all sync.WaitGroup
	for _, g := range servers {
		all.Go(g.GracefulStop)
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		for _, g := range servers {
			g.Stop()
		}
		<-done
	}
}
