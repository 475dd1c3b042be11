package access

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"endoscope/planner/types"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// Engine is one that holds to grants.
type Engine interface {
	As(*grant.Grant) wire.Engine
	// Expel ends what a user has left running without a session: triggers.
	Expel(user string)
	Close() error
}

// Guard is an engine whose sessions have what their users are granted, and end
// when that changes, or they have no access any more. It is safe for concurrent use.
//
// One goroutine looks once a second who still has access; Close ends it.
type Guard struct {
	engine Engine
	by     *Authority
	audit  *slog.Logger // nil: nothing is logged

	mu       sync.Mutex
	sessions map[*guarded]bool
	grants   map[string]*grant.Grant // that users had when they were seen last
	quit     chan struct{}
	done     chan struct{}
}

// recheck is how often sessions are looked at.
const recheck = time.Second

// NewGuard guards e, which it closes with itself. audit gets a line for each
// action (package grant, Log); nil: nothing is logged.
func NewGuard(e Engine, by *Authority, audit *slog.Logger) *Guard {
	g := &Guard{engine: e, by: by, audit: audit, sessions: map[*guarded]bool{}, grants: map[string]*grant.Grant{}, quit: make(chan struct{}), done: make(chan struct{})}
	go g.watch()
	return g
}

// guarded is a session of an identified user.
type guarded struct {
	wire.Session
	g    *Guard
	user *wire.User
	may  *grant.Grant
	once sync.Once
	err  error

	expelled atomic.Bool
}

// NewSession opens a session of o.User.
func (g *Guard) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	if o.User == nil {
		return nil, status.Error(codes.Unauthenticated, "who calls is not known")
	}
	may := g.by.grantFor(o.User)
	if may == nil {
		return nil, status.Error(codes.Unauthenticated, "who calls has no access any more")
	}
	if g.audit != nil {
		args := []any{"user", o.User.Name, "via", o.User.Via}
		if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
			args = append(args, "peer", p.Addr.String())
		}
		may.Audit = grant.Logger(g.audit, args...)
	}
	s, err := g.engine.As(may).NewSession(ctx, o)
	if err != nil {
		may.Record("refused", "error", err.Error())
		return nil, err
	}
	x := &guarded{Session: s, g: g, user: o.User, may: may}
	may.Record("connected")
	g.mu.Lock()
	g.sessions[x] = true
	g.first(o.User.Name, may)
	g.mu.Unlock()
	return x, nil
}

// GrantOf is what a user may do who defined something that is made again; false
// if they have no access any more.
func (g *Guard) GrantOf(user string) (*grant.Grant, bool) {
	may, ok := g.by.grantOf(user)
	if ok {
		g.mu.Lock()
		g.first(user, may)
		g.mu.Unlock()
	}
	if ok && g.audit != nil {
		may.Audit = grant.Logger(g.audit, "user", user, "via", "definition")
	}
	return may, ok
}

// first keeps what a user may do, unless it is known what they could before: what
// runs by that is looked at by expel. g.mu is held.
func (g *Guard) first(user string, may *grant.Grant) {
	if g.grants[user] == nil {
		g.grants[user] = may
	}
}

// errExpelled is what is left of a session.
var errExpelled = status.Error(codes.Unauthenticated, "what you may do has changed: connect again")

// Execute executes a statement, unless the user has been expelled. Its result
// tells if that happens while it runs: it is not complete then.
func (x *guarded) Execute(ctx context.Context, statement string, args ...types.Value) (wire.Result, error) {
	return x.execute(func() (wire.Result, error) { return x.Session.Execute(ctx, statement, args...) })
}

// ExecuteSplit implements wire.Splitter: it is Execute where the engine divides nothing.
func (x *guarded) ExecuteSplit(ctx context.Context, path wire.Path, statement string, args ...types.Value) (wire.Result, error) {
	split, ok := x.Session.(wire.Splitter)
	if !ok {
		return x.Execute(ctx, statement, args...)
	}
	return x.execute(func() (wire.Result, error) { return split.ExecuteSplit(ctx, path, statement, args...) })
}

// ExecuteShare implements wire.Sharer.
func (x *guarded) ExecuteShare(ctx context.Context, host, statement string, args ...types.Value) (wire.Result, error) {
	share, ok := x.Session.(wire.Sharer)
	if !ok {
		return x.Execute(ctx, statement, args...)
	}
	return x.execute(func() (wire.Result, error) { return share.ExecuteShare(ctx, host, statement, args...) })
}

// execute has a statement executed, unless the user has been expelled.
func (x *guarded) execute(run func() (wire.Result, error)) (wire.Result, error) {
	if x.expelled.Load() {
		return nil, errExpelled
	}
	r, err := run()
	if x.expelled.Load() { // meanwhile: what it has made was not seen by who expelled
		if err == nil {
			_ = r.Close()
		}
		x.g.engine.Expel(x.user.Name)
		return nil, errExpelled
	}
	if err != nil {
		return nil, err
	}
	return &watched{Result: r, by: x}, nil
}

// Describe says what a statement would give, unless the user has been expelled.
func (x *guarded) Describe(ctx context.Context, statement string) (wire.Description, error) {
	if x.expelled.Load() {
		return wire.Description{}, errExpelled
	}
	return x.Session.Describe(ctx, statement)
}

// Complete proposes nothing to who has been expelled.
func (x *guarded) Complete(ctx context.Context, kind, of, prefix string) []string {
	if x.expelled.Load() {
		return nil
	}
	return x.Session.Complete(ctx, kind, of, prefix)
}

// watched is a result that may end because its user is expelled.
type watched struct {
	wire.Result
	by *guarded
}

// Next is the result's, but for its end.
func (w *watched) Next(ctx context.Context) (wire.Event, error) {
	ev, err := w.Result.Next(ctx)
	if err != nil && w.by.expelled.Load() {
		err = errExpelled
	}
	return ev, err
}

// Fragment implements wire.Fragmented. What the client executes of it ends with the
// rows that Next gives: with an error, as those do.
func (w *watched) Fragment() *wire.Fragment {
	if r, ok := w.Result.(wire.Fragmented); ok {
		return r.Fragment()
	}
	return nil
}

// Share implements wire.Shared.
func (w *watched) Share() *wire.Share {
	if r, ok := w.Result.(wire.Shared); ok {
		return r.Share()
	}
	return nil
}

// StartsOver is what the result says of itself (wire.Frame.StartsOver).
func (w *watched) StartsOver() bool {
	r, ok := w.Result.(interface{ StartsOver() bool })
	return ok && r.StartsOver()
}

// Close ends the session, once.
func (x *guarded) Close() error {
	x.once.Do(func() {
		x.err = x.Session.Close()
		x.may.Record("disconnected")
		x.g.mu.Lock()
		delete(x.g.sessions, x) // last: the guard's Close waits for those that are there
		x.g.mu.Unlock()
	})
	return x.err
}

func (g *Guard) watch() {
	defer close(g.done)
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.expel()
		case <-g.quit:
			return
		}
	}
}

// expel ends the sessions of those who have no access any more, or another one,
// and what users have left behind who are none any more.
func (g *Guard) expel() {
	g.mu.Lock()
	all := make([]*guarded, 0, len(g.sessions))
	for x := range g.sessions {
		all = append(all, x)
	}
	g.mu.Unlock()
	for _, x := range all {
		now := g.by.grantFor(x.user)
		if now.Same(x.may) {
			continue
		}
		x.may.Record("expelled")
		x.expelled.Store(true)
		_ = x.Close() // the service closes it, too, and hears of it
	}
	g.mu.Lock()
	grants := maps.Clone(g.grants)
	g.mu.Unlock()
	for user, had := range grants {
		has, ok := g.by.grantOf(user)
		if ok && has.Same(had) {
			continue
		}
		// Their triggers run by what they were allowed before.
		had.Record("triggers dropped")
		g.engine.Expel(user)
		g.mu.Lock()
		if ok {
			g.grants[user] = has
		} else {
			delete(g.grants, user)
		}
		g.mu.Unlock()
		if !ok {
			g.by.forget(user)
		}
	}
}

// Sessions is how many there are.
func (g *Guard) Sessions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.sessions)
}

// Close ends all sessions, and the engine.
func (g *Guard) Close() error {
	close(g.quit)
	<-g.done
	g.mu.Lock()
	all := make([]*guarded, 0, len(g.sessions))
	for x := range g.sessions {
		all = append(all, x)
	}
	g.mu.Unlock()
	for _, x := range all {
		_ = x.Close()
	}
	return g.engine.Close()
}

var (
	_ wire.Engine     = (*Guard)(nil)
	_ wire.Splitter   = (*guarded)(nil)
	_ wire.Sharer     = (*guarded)(nil)
	_ wire.Fragmented = (*watched)(nil)
	_ wire.Shared     = (*watched)(nil)
)
