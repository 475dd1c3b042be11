package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"endoscope/server/wire"
)

// LinkLife is how long the token of a link is valid.
const LinkLife = time.Minute

// Access identifies callers; it is that of package flight. The context has the gRPC peer
// and the metadata "authorization" of the call.
type Access interface {
	Identify(ctx context.Context) (*wire.User, error)
}

// Options of a server.
type Options struct {
	// Access identifies users; nil: who has a token of Link is the user that the process
	// runs as.
	Access Access
	// Peer returns what is known of the other end of a connection without TLS; nil: nothing.
	Peer func(net.Conn) credentials.AuthInfo
	// Hosts are the names and addresses, without ports, under which the page may be opened.
	// Those of the loopback belong to them if the listener is on it.
	Hosts []string
	// Session are the options of the pages' sessions: their target.
	Session wire.SessionOptions
	Target  string // a name of that target, for the page; "": none
	Log     *slog.Logger
	Version string
	// Stall is how long a line may wait to be sent before its session ends; 0: 30 s.
	Stall time.Duration
	// Unread is how many bytes of rows a result may hold for a page that does not read
	// them; 0: 4 MiB.
	Unread int64
}

// Limits that protect the server.
const (
	mostPages  = 256
	mostHeader = 16 << 10
	mostBody   = 1 << 20
	requestIn  = 15 * time.Second // to be received
)

// Server serves the page of one engine. It is safe for concurrent use.
type Server struct {
	engine wire.Engine
	o      Options
	logins logins
	now    func() time.Time

	mu      sync.Mutex
	servers []*http.Server
	stop    chan struct{} // closed to end the pages
	stopped bool
	pages   sync.WaitGroup
	open    int // pages
}

// New returns a server for e. It has no listeners yet.
func New(e wire.Engine, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	if o.Unread == 0 {
		o.Unread = 4 << 20
	}
	s := &Server{engine: e, o: o, now: time.Now, stop: make(chan struct{})}
	s.logins.init()
	return s
}

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// Serve serves a listener, which it closes, until Stop. A listener with TLS is one of
// tls.NewListener.
func (s *Server) Serve(l net.Listener, tls bool) error {
	h := &http.Server{
		Handler:           s.guard(l.Addr(), tls, s.routes()),
		ReadHeaderTimeout: time.Minute, // browsers connect before they have a request, and do not send that again
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    mostHeader,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	s.mu.Lock()
	stopped := s.stopped
	if !stopped {
		s.servers = append(s.servers, h)
	}
	s.mu.Unlock()
	if stopped {
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Stop ends all pages and returns when nothing of them is attached, and their requests
// have ended or ctx is done.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	servers := s.servers
	s.servers = nil
	if !s.stopped {
		s.stopped = true
		close(s.stop)
	}
	s.mu.Unlock()
	for _, h := range servers {
		_ = h.Shutdown(ctx)
		_ = h.Close()
	}
	s.pages.Wait()
}

// enter counts a page that is opened; false: there are too many, or the server stops.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.open >= mostPages {
		return false
	}
	s.open++
	s.pages.Add(1)
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
	s.pages.Done()
}

// routes are the addresses of the page. All but its files are called by POST with JSON.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	files := assets()
	mux.Handle("GET /{$}", files)
	mux.Handle("GET /app/", files)
	mux.Handle("POST /api/login", call(s.login))
	mux.HandleFunc("POST /api/open", s.openPage)
	mux.Handle("POST /api/link", call(s.link))
	mux.Handle("POST /api/query", s.onPage((*page).query))
	mux.Handle("POST /api/stop", s.onPage((*page).stop))
	mux.Handle("POST /api/close", s.onPage((*page).drop))
	mux.Handle("POST /api/edit", s.onPage((*page).edit))
	mux.Handle("POST /api/plan", s.onPage((*page).plan))
	mux.Handle("POST /api/rates", s.onPage((*page).rates))
	mux.Handle("POST /api/series", s.onPage((*page).series))
	mux.Handle("POST /api/picture", s.onPage((*page).picture))
	mux.Handle("POST /api/library", s.onPage((*page).library))
	return mux
}
