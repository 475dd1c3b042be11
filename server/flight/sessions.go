package flight

import (
	"context"
	"crypto/rand"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"endoscope/server/wire"
)

// session is a wire.Session with the results and statements to which a client's
// calls refer.
type session struct {
	wire.Session
	user  *wire.User
	s     *Service
	marks bool // its client wants marks of time

	ending   sync.Once
	mu       sync.Mutex
	results  map[string]*result
	prepared map[string]*prepared
	closed   bool
}

func (s *Service) newSession(ctx context.Context, o wire.Options) (*session, error) {
	marks := o.Marks
	o.User, o.Unread, o.Marks = caller(ctx), s.o.Unread, true
	ws, err := s.engine.NewSession(ctx, o)
	if err != nil {
		return nil, statusOf(err, "")
	}
	return &session{Session: ws, user: o.User, s: s, marks: marks, results: map[string]*result{}, prepared: map[string]*prepared{}}, nil
}

// add stores a result under a name. It fails if the session is closed, or has
// the name.
func (x *session) add(name string, r *result) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return status.Error(codes.Canceled, "the session is closed")
	case x.results[name] != nil:
		return status.Error(codes.AlreadyExists, "there is a result of that name")
	}
	x.results[name] = r
	return nil
}

func (x *session) result(name string) *result {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.results[name]
}

// busy reports whether results of the session are not completely sent.
func (x *session) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.results) > 0
}

func (x *session) remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.results, name)
}

// end closes the session and its results. When it returns, nothing of the
// session is attached.
func (x *session) end() { x.ending.Do(x.close) }

func (x *session) close() {
	x.mu.Lock()
	x.closed = true
	results := make([]*result, 0, len(x.results))
	for _, r := range x.results {
		results = append(results, r)
	}
	clear(x.results)
	x.mu.Unlock()
	for _, r := range results {
		r.close()
	}
	if err := x.Close(); err != nil {
		x.s.o.Log.Warn("closing a session failed", "error", err)
	}
}

// newName returns a name that cannot be guessed.
func newName() string { return rand.Text() }

// session returns the session of a call: the one that its header names, or else
// that of its connection. It fails when the service is stopping.
func (s *Service) session(ctx context.Context) (*session, error) {
	select {
	case <-s.stop:
		return nil, status.Error(codes.Unavailable, "the server is shutting down")
	default:
	}
	if names := metadata.ValueFromIncomingContext(ctx, wire.SessionHeader); len(names) > 0 {
		s.mu.Lock()
		x := s.sessions[names[0]]
		s.mu.Unlock()
		if x == nil || !sameUser(x.user, caller(ctx)) {
			return nil, status.Error(codes.NotFound, "the session has ended")
		}
		return x, nil
	}
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil {
		return nil, status.Error(codes.Internal, "the call has no connection")
	}
	return c.session(ctx)
}

func sameUser(a, b *wire.User) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Name == b.Name
}

// conn is a connection with the sessions of the users that make calls on it.
type conn struct {
	s      *Service
	peer   *unidentifiedConn
	opened time.Time

	opening sync.Mutex // held while a session is opened
	mu      sync.Mutex
	own     map[string]*session // by user name
	closed  bool

	path *path // to the client
}

type connKey struct{}

// session returns the session of the calling user, which the user's first call
// opens.
func (c *conn) session(ctx context.Context) (*session, error) {
	name := ""
	if u := caller(ctx); u != nil {
		name = u.Name
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	x := c.own[name]
	c.mu.Unlock()
	if x != nil {
		return x, nil
	}
	x, err := c.s.newSession(ctx, wire.Options{})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.own[name] = x
	}
	c.mu.Unlock()
	if closed {
		x.end()
		return nil, status.Error(codes.Canceled, "the connection is closed")
	}
	return x, nil
}

// close ends the sessions of a connection that is closed.
func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	own := c.own
	c.own = nil
	c.mu.Unlock()
	for _, x := range own {
		go x.end()
	}
}

// connections assigns each call its connection.
type connections struct{ s *Service }

func (h *connections) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	c := &conn{s: h.s, opened: time.Now(), own: map[string]*session{}, path: &path{}}
	if a, ok := info.RemoteAddr.(unidentifiedAddr); ok {
		c.peer = a.conn
		c.path.tcp, _ = a.conn.NetConn().(*net.TCPConn)
	}
	h.s.o.Log.Debug("connected", "peer", info.RemoteAddr)
	return context.WithValue(ctx, connKey{}, c)
}

func (h *connections) HandleConn(ctx context.Context, ev stats.ConnStats) {
	if _, ok := ev.(*stats.ConnEnd); ok {
		if c, ok := ctx.Value(connKey{}).(*conn); ok {
			c.close()
		}
	}
}

func (h *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (h *connections) HandleRPC(context.Context, stats.RPCStats)                       {}
