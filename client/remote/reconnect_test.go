package remote_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/client/remote"
	"endoscope/planner/types"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// interrupted reads a statement's rows, and cuts the connection after some of them.
func interrupted(t *testing.T, statement string, after int, before ...string) (rows int, sum wire.Summary, err error) {
	t.Helper()
	p := newProxy(t, serve(t, flight.Options{}).addr)
	e, err := remote.Dial(p.addr, remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := remote.Reconnecting(e).NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, statement := range before {
		execute(t, x, statement)
	}
	r := execute(t, x, statement)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for cut := false; ; {
		ev, err := r.Next(ctx)
		if err != nil {
			return rows, r.Summary(), err
		}
		if ev.Batch != nil {
			rows += ev.Batch.Len()
			ev.Batch.Release()
		}
		if !cut && rows >= after {
			cut = true
			p.cut()
		}
	}
}

// A LIMIT applies to the rows before and after a lost connection together.
func TestLimitOfAnInterruptedResult(t *testing.T) {
	rows, sum, err := interrupted(t, "SELECT timestamp FROM SAMPLE(cpu_usage, 50ms) LIMIT 20", 3)
	if !errors.Is(err, io.EOF) || rows != 20 || sum.Rows != 20 || len(sum.Losses) == 0 {
		t.Errorf("%d rows, %+v, %v", rows, sum, err)
	}
}

// Rows are not returned twice: a statement that would restart is not executed again.
func TestWhatStartsOverIsNotResumed(t *testing.T) {
	_, _, err := interrupted(t, "SELECT n FROM series(20000000)", 1)
	var lost *remote.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "first rows again") {
		t.Errorf("it ends with %v", err)
	}
}

// Nor is one that would restart because of a named stream, whose definition only the
// server knows.
func TestWhatStartsOverByNameIsNotResumed(t *testing.T) {
	_, _, err := interrupted(t, "SELECT n FROM named", 1, "CREATE STREAM named AS SELECT n FROM series(20000000)")
	var lost *remote.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "first rows again") {
		t.Errorf("it ends with %v", err)
	}
	rows, _, err := interrupted(t, "SELECT * FROM named LIMIT 6", 3, "CREATE STREAM named AS SELECT timestamp FROM SAMPLE(cpu_usage, 50ms)")
	if !errors.Is(err, io.EOF) || rows != 6 {
		t.Errorf("what goes on is not resumed: %d rows, %v", rows, err)
	}
}

// unreachable is an engine that can be reached once, and whose only session is lost.
type unreachable struct {
	wire.Engine
	sessions chan bool // a token for each attempt
	once     sync.Once
}

func (u *unreachable) NewSession(ctx context.Context, _ wire.Options) (s wire.Session, err error) {
	u.once.Do(func() { s = lostSession{} })
	if s != nil {
		return s, nil
	}
	u.sessions <- true
	<-ctx.Done() // as if the server did not answer
	return nil, ctx.Err()
}

type lostSession struct{ wire.Session }

func (lostSession) Execute(context.Context, string, ...types.Value) (wire.Result, error) {
	return nil, &remote.LostError{Addr: "nowhere", Why: "cut"}
}
func (lostSession) Info() []string { return []string{"it was there"} }
func (lostSession) Close() error   { return nil }

// While a session reconnects, it answers what needs no connection, other statements
// can be cancelled, and the session can be closed.
func TestConnectingHoldsNobodyUp(t *testing.T) {
	u := &unreachable{sessions: make(chan bool, 10)}
	x, err := remote.Reconnecting(u).NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 2)
	execute := func(ctx context.Context) {
		_, err := x.Execute(ctx, "SHOW STREAMS")
		over <- err
	}
	go execute(t.Context())
	<-u.sessions
	if got := x.Info(); len(got) != 1 {
		t.Errorf("it says %v of itself", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go execute(ctx)
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the statement that was given up ends with %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; err == nil {
		t.Error("a statement of a closed session was executed")
	}
	if n := len(u.sessions); n != 0 {
		t.Errorf("%d more tried to connect at the same time", n)
	}
}
