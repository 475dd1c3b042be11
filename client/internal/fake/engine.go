package fake

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Engine is a wire.Engine.
type Engine struct{ attached, sessions atomic.Int64 }

// New returns an engine.
func New() (wire.Engine, error) { return &Engine{}, nil }

// NewSession rejects process ids that no process can have.
func (e *Engine) NewSession(_ context.Context, o wire.Options) (wire.Session, error) {
	if o.PID > 1<<22 {
		return nil, &parser.Error{Msg: fmt.Sprintf("there is no process %d", o.PID), Pos: parser.Span{Start: -1}}
	}
	e.sessions.Add(1)
	return &session{engine: e, o: o, made: make(chan struct{}, 1)}, nil
}

// Close fails if queries or sessions are still open.
func (e *Engine) Close() error {
	if n := e.attached.Load(); n != 0 {
		return fmt.Errorf("%d queries are still attached", n)
	}
	if n := e.sessions.Load(); n != 0 {
		return fmt.Errorf("%d sessions are still open", n)
	}
	return nil
}

type session struct {
	engine   *Engine
	o        wire.Options
	settings []string
	made     chan struct{} // receives a token when the trigger samples
}

// Triggered returns the rows of the trigger.
func (s *session) Triggered(follow bool) wire.Result {
	return s.start(context.Background(), triggerColumns, func(r *result) error { return playTrigger(r, follow) })
}

func (s *session) Close() error { s.engine.sessions.Add(-1); return nil }

func (s *session) Info() []string {
	switch {
	case s.o.PID != 0:
		return []string{"fake engine in this process", fmt.Sprintf("target: pid %d", s.o.PID)}
	case s.o.Process != "":
		return []string{"fake engine in this process", "target: process " + s.o.Process}
	case s.o.Exe != "":
		return []string{"fake engine in this process", "target: " + s.o.Exe}
	case s.o.Command != nil:
		return []string{"fake engine in this process", "target: " + strings.Join(s.o.Command, " ")}
	}
	return []string{"fake engine in this process", "no target"}
}

// Describe returns an empty description.
func (s *session) Describe(context.Context, string) (wire.Description, error) {
	return wire.Description{}, nil
}

// Complete returns a few names of each kind.
func (s *session) Complete(_ context.Context, kind, of, prefix string) (found []string) {
	names := map[string][]string{
		"stream":   {"calls", "endless", "types"},
		"function": {"fib", "handle_request", "process_job"},
		"setting":  {"join_gating", "lateness"},
		"process":  {"nginx", "redis-server"},
		"model":    {"files", "funnel"},
		"trigger":  {"fast_start"},
		"export":   {"redis"},
		"query":    {"calls"},
		"context":  {"request"},
	}[kind]
	if kind == "column" {
		names = map[string][]string{
			"calls":   {"duration", "function_name", "timestamp"},
			"endless": {"n"},
		}[of]
	}
	for _, n := range names {
		if strings.HasPrefix(strings.ToLower(n), strings.ToLower(prefix)) {
			found = append(found, n)
		}
	}
	return found
}

var fromStream = regexp.MustCompile(`(?i)\bFROM\s+(\w+)`)

func (s *session) Execute(ctx context.Context, text string, _ ...types.Value) (wire.Result, error) {
	words := strings.Fields(strings.ToUpper(text))
	switch {
	case slices.Equal(words, []string{"SHOW", "STREAMS"}):
		return s.start(ctx, columns("stream", types.Varchar, "about", types.Varchar), func(r *result) error {
			return r.rows(row("calls", "three calls"), row("endless", "rows without end"))
		}), nil
	case len(words) == 2 && words[0] == "DESCRIBE":
		return s.start(ctx, columns("column", types.Varchar, "type", types.Varchar), func(r *result) error {
			return r.rows(row("timestamp", "TIMESTAMP"), row("duration", "DURATION"))
		}), nil
	case len(words) > 1 && words[0] == "SET":
		s.settings = append(s.settings, text)
		return s.message("set"), nil
	case slices.Equal(words, []string{"SHOW", "SETTINGS"}):
		return s.start(ctx, columns("setting", types.Varchar), func(r *result) error {
			for _, k := range s.settings {
				if err := r.rows(row(k)); err != nil {
					return err
				}
			}
			return nil
		}), nil
	case len(words) > 2 && words[0] == "CREATE" && words[1] == "STREAM":
		return s.message("stream created"), nil
	case len(words) > 2 && words[0] == "CREATE" && words[1] == "TRIGGER":
		s.makeTrigger(text)
		return s.message("trigger created"), nil
	}
	if b, ok := profiling(text); ok {
		return s.start(ctx, b.cols, b.play), nil
	}
	if m := fromStream.FindStringSubmatchIndex(text); m != nil {
		name := text[m[2]:m[3]]
		if b, ok := streams[name]; ok {
			if name == "slow_start" {
				raise(os.Interrupt)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.start(ctx, b.cols, b.play), nil
		}
		return nil, &parser.Error{
			Msg: "there is no stream " + name, Hint: "SHOW STREAMS lists them",
			Src: text, Pos: parser.Span{Start: m[2], Stop: m[3]},
		}
	}
	return nil, &parser.Error{Msg: "this is not a statement", Src: text, Pos: parser.Span{Start: 0, Stop: len(text)}, Syntax: true}
}

// apart is the interval between signals of a user at a terminal; signals closer
// together count as one that was sent twice.
const apart = 300 * time.Millisecond

var raised struct {
	sync.Mutex
	at time.Time
}

// waitForSignal is wait for what a signal does. The next signal is some time after that, however long
// this one took to arrive.
func (r *result) waitForSignal() error {
	err := r.wait()
	raised.Lock()
	raised.at = time.Now()
	raised.Unlock()
	return err
}

// raise sends this process a signal, as a terminal would.
func raise(sig os.Signal) {
	raised.Lock()
	defer raised.Unlock()
	time.Sleep(apart - time.Since(raised.at))
	raised.at = time.Now()
	_ = syscall.Kill(os.Getpid(), sig.(syscall.Signal))
}
