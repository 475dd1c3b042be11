package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Reconnecting returns an engine whose sessions survive the loss of their connection.
// They reconnect, repeat the USE, SET and SUSPEND statements of the session, and
// execute the remainder of the statements whose results were being read: LIMIT and
// FOR apply to the whole. A statement that would return its first rows again ends
// with an error. Events during the gap are missing; each such result reports this by
// a notice when it resumes, and in its summary. Statements that define or change
// something are not executed again.
func Reconnecting(e wire.Engine) wire.Engine { return &reconnecting{e} }

type reconnecting struct{ wire.Engine }

// Pauses between attempts double, with jitter, so that the clients of a restarted
// server do not reconnect at the same time.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
)

func (r *reconnecting) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	s, err := r.Engine.NewSession(ctx, o) // the first attempt is not repeated
	if err != nil {
		return nil, err
	}
	o.Command = nil // it was started, and is not started again
	x := &persistent{e: r.Engine, o: o, now: s}
	x.life, x.end = context.WithCancel(context.WithoutCancel(ctx))
	return x, nil
}

// persistent is a session over successive connections.
type persistent struct {
	e    wire.Engine
	o    wire.Options
	life context.Context // done when the session is closed
	end  context.CancelFunc

	mu       sync.Mutex // guards the following fields; held briefly
	now      wire.Session
	state    []setting     // in order of execution
	version  int           // incremented when state changes
	renewing chan struct{} // closed when an attempt to connect has ended; nil: no attempt in progress
}

// setting is a statement that changed the state of the session.
type setting struct {
	of        string // Class.Session
	statement string
}

func isLost(err error) bool {
	var lost *LostError
	return errors.As(err, &lost)
}

// session returns the session of the current connection.
func (x *persistent) session() wire.Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.now
}

// renew replaces a session whose connection was lost, once the server is reachable.
// It waits until then, or until ctx is done or the session is closed. One caller
// connects at a time, and the others wait for it.
func (x *persistent) renew(ctx context.Context, old wire.Session) (wire.Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)()
	for {
		x.mu.Lock()
		if x.now != old { // another caller has
			defer x.mu.Unlock()
			return x.now, nil
		}
		busy := x.renewing
		if busy == nil {
			x.renewing = make(chan struct{})
		}
		x.mu.Unlock()
		if busy == nil {
			return x.connect(ctx, old)
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connect is the part of renew for the caller that connects.
func (x *persistent) connect(ctx context.Context, old wire.Session) (s wire.Session, err error) {
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		close(x.renewing)
		x.renewing = nil
	}()
	_ = old.Close()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		s, err := x.begin(ctx)
		if err == nil {
			return s, nil
		}
		if !isLost(err) {
			return nil, err // the server is reachable, and refuses
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin opens a session with the state of the previous one and makes it current.
func (x *persistent) begin(ctx context.Context) (wire.Session, error) {
	x.mu.Lock()
	o := x.o
	x.mu.Unlock()
	s, err := x.e.NewSession(ctx, o)
	if err != nil {
		return nil, err
	}
	for {
		x.mu.Lock()
		version, state := x.version, slices.Clone(x.state)
		x.mu.Unlock()
		for _, set := range state {
			r, err := s.Execute(ctx, set.statement)
			if err == nil {
				err = r.Close()
			}
			if err != nil {
				_ = s.Close()
				return nil, err
			}
		}
		if x.settle(s, version) {
			break
		}
	}
	if x.life.Err() != nil { // closed meanwhile: nothing else closes s
		_ = s.Close()
		return nil, context.Canceled
	}
	return s, nil
}

// settle makes s current, unless the state has changed meanwhile.
func (x *persistent) settle(s wire.Session, version int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.version != version {
		return false
	}
	x.now = s
	return true
}

// note records a statement that sets session state. It replaces the previous
// statement that set the same.
func (x *persistent) note(c parser.Class, statement string) {
	if c.Session == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state = slices.DeleteFunc(x.state, func(s setting) bool { return s.of == c.Session })
	x.state = append(x.state, setting{c.Session, statement})
	x.version++
	if c.Kind == "USE" {
		x.o.PID, x.o.Process, x.o.Exe = 0, "", ""
	}
}

func (x *persistent) Execute(ctx context.Context, statement string, args ...types.Value) (wire.Result, error) {
	var c parser.Class // the zero Class if it does not parse
	parsed, err := parser.Parse(statement)
	if err == nil {
		c = parser.Classify(parsed)
	}
	s := x.session()
	r, err := s.Execute(ctx, statement, args...)
	if isLost(err) {
		// The server may have executed it: only statements that may be executed twice
		// are repeated.
		if !c.Reads && c.Session == "" {
			return nil, err
		}
		if s, err = x.renew(ctx, s); err != nil {
			return nil, err
		}
		r, err = s.Execute(ctx, statement, args...)
	}
	if err != nil {
		return nil, err
	}
	x.note(c, statement)
	if !c.Reads {
		return r, nil
	}
	return &resumed{x: x, s: s, parsed: parsed, statement: statement, args: args, now: r, began: time.Now()}, nil
}

func (x *persistent) Describe(ctx context.Context, statement string) (wire.Description, error) {
	s := x.session()
	d, err := s.Describe(ctx, statement)
	if isLost(err) {
		if s, err = x.renew(ctx, s); err == nil {
			d, err = s.Describe(ctx, statement)
		}
	}
	return d, err
}

func (x *persistent) Complete(ctx context.Context, kind, of, prefix string) []string {
	return x.session().Complete(ctx, kind, of, prefix)
}

func (x *persistent) Info() []string                    { return x.session().Info() }
func (x *persistent) Triggered(follow bool) wire.Result { return x.session().Triggered(follow) }

func (x *persistent) Close() error {
	x.end()
	return x.session().Close()
}

// resumed is a result over successive connections.
type resumed struct {
	x         *persistent
	parsed    parser.Statement
	statement string
	args      []types.Value
	began     time.Time

	mu      sync.Mutex // guards the following fields
	s       wire.Session
	now     wire.Result
	before  wire.Summary // sum of the lost results, as far as known
	row     uint64       // number of rows of the lost results
	seen    uint64       // number of rows of now
	gaps    []string
	notices []string
	stopped bool
	over    bool // the lost rows were all
}

func (r *resumed) current() wire.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *resumed) Columns() []wire.Column { return r.current().Columns() }
func (r *resumed) Message() string        { return r.current().Message() }
func (r *resumed) Info() wire.Info        { return r.current().Info() }

func (r *resumed) Next(ctx context.Context) (wire.Event, error) {
	for {
		r.mu.Lock()
		if len(r.notices) > 0 {
			text := r.notices[0]
			r.notices = r.notices[1:]
			r.mu.Unlock()
			return wire.Event{Kind: wire.Notice, Text: text}, nil
		}
		now, stopped := r.now, r.stopped
		if r.over {
			defer r.mu.Unlock()
			return wire.Event{Row: r.row}, io.EOF
		}
		r.mu.Unlock()
		ev, err := now.Next(ctx)
		if isLost(err) && !stopped {
			if err := r.resume(ctx, now, err); err != nil {
				return wire.Event{}, err
			}
			continue
		}
		r.mu.Lock()
		if ev.Kind == wire.Rows && ev.Batch != nil && !ev.Preview {
			r.seen += uint64(ev.Batch.Len())
		}
		if ev.Row > 0 {
			ev.Row += r.row
		}
		r.mu.Unlock()
		return ev, err
	}
}

// resume continues a result whose connection was lost: it executes the remainder of
// the statement.
func (r *resumed) resume(ctx context.Context, lost wire.Result, why error) error {
	began := time.Now()
	sum := lost.Summary()
	_ = lost.Close()
	given := r.row + r.seen // written by this goroutine only
	_, done, err := remainder(r.parsed, r.statement, given, time.Since(r.began))
	if err == nil && !done && given > 0 && lost.Info().StartsOver {
		err = errStartsOver // only the server knows what a name refers to
	}
	if err != nil {
		return fmt.Errorf("%w; %w", why, err)
	}
	if done {
		r.mu.Lock()
		defer r.mu.Unlock()
		sum.Rows = r.seen
		r.before = plus(r.before, sum)
		r.row, r.seen, r.over = given, 0, true
		return nil
	}
	s, err := r.x.renew(ctx, r.s)
	if err != nil {
		return errors.Join(why, err)
	}
	rest, _, err := remainder(r.parsed, r.statement, given, time.Since(r.began))
	if err != nil {
		return fmt.Errorf("%w; %w", why, err)
	}
	again, err := s.Execute(ctx, rest, r.args...)
	if err != nil {
		return errors.Join(why, err)
	}
	gap := time.Since(began).Round(10 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.s, r.now = s, again
	sum.Rows = r.seen
	r.before = plus(r.before, sum)
	r.row, r.seen = r.row+r.seen, 0
	r.gaps = append(r.gaps, fmt.Sprintf("gap: no data for %v from %s; totals restart after it", gap, began.Format("15:04:05.000")))
	r.notices = append(r.notices, fmt.Sprintf("%v; reconnected: %v are missing; totals restart", why, gap))
	if r.stopped {
		again.Stop()
	}
	return nil
}

// plus adds two summaries.
func plus(a, b wire.Summary) wire.Summary {
	a.Rows += b.Rows
	a.Losses, a.Counts = sum(a.Losses, b.Losses), sum(a.Counts, b.Counts)
	a.Notes = append(a.Notes, b.Notes...)
	a.Cost += b.Cost
	a.Overhead, a.Sample = b.Overhead, b.Sample
	return a
}

func sum(a, b []wire.Loss) []wire.Loss {
	out := slices.Clone(a)
	for _, l := range b {
		if i := slices.IndexFunc(out, func(o wire.Loss) bool { return o.Cause == l.Cause }); i >= 0 {
			out[i].N += l.N
		} else {
			out = append(out, l)
		}
	}
	return out
}

func (r *resumed) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.now.Stop()
}

func (r *resumed) Close() error { return r.current().Close() }

func (r *resumed) Summary() wire.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.before
	if !r.over {
		all = plus(r.before, r.now.Summary())
	}
	if len(r.gaps) > 0 {
		all.Elapsed = time.Since(r.began)
		all.Losses = append(all.Losses, wire.Loss{Cause: lostCause, N: uint64(len(r.gaps))})
		all.Notes = append(all.Notes, r.gaps...)
	} else {
		all.Elapsed = r.now.Summary().Elapsed
	}
	return all
}

// lostCause is the cause of losses during a lost connection: their events are
// unknown, so the result is incomplete.
const lostCause = "connection lost"

var _ wire.Engine = (*reconnecting)(nil)
