package access

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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

// Engine is an engine that enforces grants.
type Engine interface {
	As(*grant.Grant) wire.Engine
	// Expel ends what a user has left running without a session: triggers and exports.
	Expel(user string)
	Close() error
}

// Guard is an engine whose sessions run with their users' grants. A session ends when
// its user's grant changes or access is revoked. Guard is safe for concurrent use.
//
// One goroutine checks access once a second; Close ends it.
type Guard struct {
	engine Engine
	by     *Authority
	audit  *slog.Logger // nil: nothing is logged

	mu       sync.Mutex
	sessions map[*guarded]bool
	grants   map[string]*grant.Grant // the last known grant of each user
	quit     chan struct{}
	done     chan struct{}
}

// recheck is the interval between checks of the sessions; tests check by themselves.
var recheck = time.Second

// NewGuard returns a guard of e; Close closes e too. audit gets a line for each
// action (see grant.Log); nil: no audit log.
func NewGuard(e Engine, by *Authority, audit *slog.Logger) *Guard {
	g := &Guard{engine: e, by: by, audit: audit, sessions: map[*guarded]bool{}, grants: map[string]*grant.Grant{}, quit: make(chan struct{}), done: make(chan struct{})}
	go g.watch()
	return g
}

// guarded is a session of an identified user.
type guarded struct {
	wire.Session
	g       *Guard
	user    *wire.User
	granted *grant.Grant
	once    sync.Once
	err     error

	expelled atomic.Bool
}

// NewSession opens a session for o.User.
func (g *Guard) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	if o.User == nil {
		return nil, status.Error(codes.Unauthenticated, "the caller is not identified")
	}
	granted := g.by.grantFor(o.User)
	if granted == nil {
		return nil, status.Error(codes.Unauthenticated, "the caller's access has been revoked")
	}
	if g.audit != nil {
		args := []any{"user", o.User.Name, "via", o.User.Via}
		if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
			args = append(args, "peer", p.Addr.String())
		}
		granted.Audit = grant.Logger(g.audit, args...)
	}
	granted.Account.AwaitLog(ctx.Done())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := g.engine.As(granted).NewSession(ctx, o)
	if err != nil {
		granted.Refused("error", err.Error())
		return nil, err
	}
	x := &guarded{Session: s, g: g, user: o.User, granted: granted}
	granted.Record("connected")
	g.mu.Lock()
	g.sessions[x] = true
	g.first(o.User.Name, granted)
	g.mu.Unlock()
	return x, nil
}

// GrantOf returns the grant of the owner of a definition that is being restored;
// false if the user no longer has access.
func (g *Guard) GrantOf(user string) (*grant.Grant, bool) {
	granted, ok := g.by.grantOf(user)
	if ok {
		g.mu.Lock()
		g.first(user, granted)
		g.mu.Unlock()
	}
	if ok && g.audit != nil {
		granted.Audit = grant.Logger(g.audit, "user", user, "via", "definition")
	}
	return granted, ok
}

// first records a user's grant unless one is recorded already: expel compares running
// triggers with the recorded one. The caller holds g.mu.
func (g *Guard) first(user string, granted *grant.Grant) {
	if g.grants[user] == nil {
		g.grants[user] = granted
	}
}

// errExpelled is the error of every call on an expelled session.
var errExpelled = status.Error(codes.Unauthenticated, "your grant has changed: connect again")

// Execute executes a statement, unless the user has been expelled. If the user is
// expelled while it runs, the result ends with an error, since it is incomplete.
func (x *guarded) Execute(ctx context.Context, statement string, args ...types.Value) (wire.Result, error) {
	return x.execute(func() (wire.Result, error) { return x.Session.Execute(ctx, statement, args...) })
}

// ExecuteSplit implements wire.Splitter. It is Execute if the engine does not split
// queries.
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
	if x.expelled.Load() { // expelled meanwhile: expel did not see what run has created
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

// Describe describes a statement's result, unless the user has been expelled.
func (x *guarded) Describe(ctx context.Context, statement string) (wire.Description, error) {
	if x.expelled.Load() {
		return wire.Description{}, errExpelled
	}
	return x.Session.Describe(ctx, statement)
}

// Complete returns nothing if the user has been expelled.
func (x *guarded) Complete(ctx context.Context, kind, of, prefix string) []string {
	if x.expelled.Load() {
		return nil
	}
	return x.Session.Complete(ctx, kind, of, prefix)
}

// watched is a result that ends with errExpelled if its user is expelled.
type watched struct {
	wire.Result
	by *guarded
}

// Next returns the next event; after an expulsion the error is errExpelled.
func (w *watched) Next(ctx context.Context) (wire.Event, error) {
	ev, err := w.Result.Next(ctx)
	if err != nil && w.by.expelled.Load() {
		err = errExpelled
	}
	return ev, err
}

// Close ends the session. Later calls do nothing.
func (x *guarded) Close() error {
	x.once.Do(func() {
		x.err = x.Session.Close()
		x.granted.Record("disconnected")
		x.g.mu.Lock()
		delete(x.g.sessions, x) // last: Guard.Close waits for the sessions that are listed
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

// expel ends the sessions whose users have lost access or have a different grant, drops
// the triggers of such users, and closes the connections of certificates that are not
// valid any more.
func (g *Guard) expel() {
	g.by.revoked.expel()
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.sessions))
	g.mu.Unlock()
	for _, x := range all {
		now := g.by.grantFor(x.user)
		if now.Same(x.granted) {
			continue
		}
		x.granted.Record("expelled")
		x.expelled.Store(true)
		_ = x.Close() // the service closes it too, and sees the error
	}
	g.mu.Lock()
	grants := maps.Clone(g.grants)
	g.mu.Unlock()
	for user, had := range grants {
		has, ok := g.by.grantOf(user)
		if ok && has.Same(had) {
			continue
		}
		// The user's triggers run with the previous grant.
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

// Sessions returns the number of open sessions.
func (g *Guard) Sessions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.sessions)
}

// Close ends all sessions and closes the engine.
func (g *Guard) Close() error {
	close(g.quit)
	<-g.done
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.sessions))
	g.mu.Unlock()
	for _, x := range all {
		_ = x.Close()
	}
	return g.engine.Close()
}

var (
	_ wire.Engine   = (*Guard)(nil)
	_ wire.Splitter = (*guarded)(nil)
	_ wire.Sharer   = (*guarded)(nil)
)
