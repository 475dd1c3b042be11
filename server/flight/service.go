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

// Access identifies callers.
type Access interface {
	// Identify is called at the beginning of each call, with the call's
	// context, which has the peer and the metadata that the client sent. Its
	// errors are gRPC statuses.
	Identify(ctx context.Context) (*wire.User, error)
}

// Options of a service.
type Options struct {
	Access  Access // nil: every client is the user that the process runs as
	Log     *slog.Logger
	Version string
	// ClientTimeout is how long a client may be silent before its sessions end,
	// how long a result waits to be requested, and how long a connection may
	// exist before an identified call; 0: 10 s.
	ClientTimeout time.Duration
	// Unread is how many bytes of rows a result may hold for a client that does
	// not read them; 0: 16 MiB.
	Unread int64
}

// beat is the interval at which a client that waits for rows gets a sign of
// life.
const beat = time.Second

// markEvery is the interval at which a client that wants marks gets them.
const markEvery = 100 * time.Millisecond

// maxMessage is the maximum length of a received message: a statement, or
// parameters.
const maxMessage = 4 << 20

// Service serves one engine. It is safe for concurrent use.
type Service struct {
	flightsql.BaseServer
	engine wire.Engine
	name   string // a random name of the service
	o      Options

	mu       sync.Mutex
	sessions map[string]*session // opened by ActionSession
	servers  []*grpc.Server
	stopping bool
	stop     chan struct{} // closed to end the sessions
}

// New returns a service for e. It has no listeners yet.
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
// options apply to this listener, such as its encryption.
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
	if err := g.Serve(unidentifiedListener{l, newUnidentified(maxUnidentified, s.o.ClientTimeout)}); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop refuses new calls and asks running queries to finish. It returns when
// their clients have the results, or when ctx is done: then the rest is
// aborted. When it returns, nothing is attached.
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
