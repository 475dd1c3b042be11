package root

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"endoscope/parser"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// Options of a root.
type Options struct {
	Bus   bus.Address
	Trust bus.Trust // nil: bus.Open
	// Reducer: it may not create the buckets of the bus.
	Reducer bool
}

// Engine opens sessions with all hosts of a bus.
type Engine struct {
	nc    *nats.Conn
	trust bus.Trust
	hosts *directory
	stop  context.CancelFunc
}

// opening is how long connecting to the bus may take.
const opening = 30 * time.Second

// Dial connects to a bus. It creates the buckets of a new one.
func Dial(ctx context.Context, o Options) (*Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	nc, err := o.Bus.Connect("root", false)
	if err != nil {
		return nil, err
	}
	e := &Engine{nc: nc, trust: o.Trust}
	if e.trust == nil {
		e.trust = bus.Open{}
	}
	if !o.Reducer {
		err = bus.Prepare(ctx, nc, 0)
	}
	if err == nil {
		err = e.trust.Learn(ctx, nc)
	}
	if err == nil {
		e.hosts, err = openDirectory(ctx, nc, e.trust)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go e.trust.Follow(following, nc, func(string, error) {}) // the hosts log it
	return e, nil
}

// Close implements wire.Engine.
func (e *Engine) Close() error {
	_ = e.hosts.stop()
	e.stop()
	_ = e.nc.FlushTimeout(time.Second) // the ends of queries
	e.nc.Close()
	return nil
}

// NewSession implements wire.Engine.
func (e *Engine) NewSession(_ context.Context, o wire.Options) (wire.Session, error) {
	refuse := func(hint, format string, args ...any) (wire.Session, error) {
		return nil, &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: parser.Span{Start: -1}}
	}
	switch {
	case len(o.Command) > 0:
		return refuse("", "a program cannot be started on all hosts of a fleet")
	case o.PID != 0:
		return refuse("--process NAME or --exe PATH", "process %d means another program on each host of a fleet", o.PID)
	}
	return &session{e: e, target: o}, nil
}

// session is a session with all hosts. The hosts keep none: each statement carries what
// the session has set.
type session struct {
	e       *Engine
	target  wire.Options
	prelude prelude
}

// Close implements wire.Session.
func (s *session) Close() error { return nil }

// Triggered implements wire.Session. A fleet has no triggers.
func (s *session) Triggered(bool) wire.Result { return nothing{} }

// Info implements wire.Session.
func (s *session) Info() []string {
	info := []string{
		fmt.Sprintf("engine: a fleet at %s", cmp.Or(s.e.nc.ConnectedUrlRedacted(), "a bus in this process")),
		fmt.Sprintf("hosts: %d of %d", s.e.hosts.living(), len(s.e.hosts.list())),
	}
	if keepers := s.e.hosts.keepers(); len(keepers) > 0 {
		var names []string
		for _, k := range keepers {
			name, _ := bus.Reducer(k.Name)
			names = append(names, name)
		}
		info = append(info, "standing queries are kept by: "+strings.Join(names, ", "))
	}
	if r := s.e.hosts.reduction(); r != nil {
		info = append(info, fmt.Sprintf("results of %d shards are merged by: %s", r.Shards, strings.Join(r.Reducers, ", ")))
	}
	return info
}

// Describe implements wire.Session: what one host answers.
func (s *session) Describe(ctx context.Context, statement string) (d wire.Description, err error) {
	a, err := s.ask(ctx, &bus.Question{Describe: statement})
	if err != nil {
		return d, err
	}
	return a.Description, nil
}

// Complete implements wire.Session: what one host answers.
func (s *session) Complete(ctx context.Context, kind, of, prefix string) []string {
	if kind == "query" {
		return s.standingNames(ctx, prefix)
	}
	a, err := s.ask(ctx, &bus.Question{Complete: wire.Question{Kind: kind, Of: of, Prefix: prefix}})
	if err != nil {
		return nil
	}
	return a.Lines
}

// asking is how long one host may take to answer a question, before another one is asked.
const asking = 2 * time.Second

// ask asks hosts until one answers.
func (s *session) ask(ctx context.Context, q *bus.Question) (a bus.Answer, err error) {
	return s.askOf(ctx, s.e.hosts.list(), q)
}

// askOf asks these hosts until one answers.
func (s *session) askOf(ctx context.Context, hosts []*host, q *bus.Question) (a bus.Answer, err error) {
	q.Prelude, q.Process, q.Exe = s.prelude.statements(), s.target.Process, s.target.Exe
	err = errors.New("no host answers")
	tried := 0
	for _, h := range hosts {
		if !s.e.hosts.alive(h) || tried == 3 {
			continue
		}
		tried++
		m, sealed := s.e.trust.Seal(bus.About{Kind: bus.KindControl, Host: h.Name}, bus.Encode(bus.Control{Ask: q}))
		if sealed != nil {
			return a, sealed
		}
		short, cancel := context.WithTimeout(ctx, asking)
		reply, failed := s.e.nc.RequestWithContext(short, bus.HostSubject(h.Name), m)
		cancel()
		if failed != nil {
			continue
		}
		text, _, refused := s.e.trust.Open(bus.About{Kind: bus.KindAnswer, Host: h.Name}, reply.Data)
		if refused != nil || bus.Decode(text, &a) != nil {
			continue
		}
		if a.Refusal != nil {
			return a, errorOf(a.Refusal)
		}
		return a, nil
	}
	return a, cmp.Or(ctx.Err(), err)
}

// errorOf returns the error that a host has sent.
func errorOf(r *bus.Refusal) error {
	return &parser.Error{Msg: r.Msg, Hint: r.Hint, Src: r.Src, Pos: parser.Span{Start: r.Start, Stop: r.Stop}, Syntax: r.Syntax}
}

// Received returns how many bytes the bus has delivered.
func (e *Engine) Received() uint64 { return e.nc.Stats().InBytes }

// Await waits until so many hosts and reducers send heartbeats.
func (e *Engine) Await(ctx context.Context, hosts, reducers int) error {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	for {
		alive, keepers := e.hosts.living(), len(e.hosts.reducers(func(*host) bool { return true }))
		if alive >= hosts && keepers >= reducers {
			return nil
		}
		if !pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("only %d of %d hosts and %d of %d reducers have joined the fleet", alive, hosts, keepers, reducers)
		}
	}
}
