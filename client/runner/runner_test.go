package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"endoscope/client/internal/fake"
	"endoscope/client/render"
	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

func TestFooter(t *testing.T) {
	for want, s := range map[string]wire.Summary{
		"5 rows in 1.23s, complete":                      {Rows: 5, Elapsed: 1230 * time.Millisecond},
		"1 row in 83.0us, complete":                      {Rows: 1, Elapsed: 83 * time.Microsecond},
		"0 rows in 2min05s, complete":                    {Elapsed: 125 * time.Second},
		"5 rows in 1.00s, complete (3 calls unfinished)": {Rows: 5, Elapsed: time.Second, Counts: []wire.Loss{{Cause: "calls unfinished", N: 3}}},
		"5 rows in 1.00s, lost 17 (ring buffer full 12, late 5)": {Rows: 5, Elapsed: time.Second,
			Losses: []wire.Loss{{Cause: "ring buffer full", N: 12}, {Cause: "late", N: 5}}},
		"5 rows in 1.00s, complete; cost 8.61ms of CPU time, 0.86 %; a note": {Rows: 5, Elapsed: time.Second, Cost: 8610 * time.Microsecond, Notes: []string{"a note"}},
		"5 rows in 1.00s, complete; cost 430ms of CPU time, 43 %":            {Rows: 5, Elapsed: time.Second, Cost: 430 * time.Millisecond},
		"5 rows in 1.00s, complete; cost 50.0us of CPU time, < 0.01 %":       {Rows: 5, Elapsed: time.Second, Cost: 50 * time.Microsecond},
		"5 rows in 1.00s, lost 1 (late 1) (2 a, 3 b)": {Rows: 5, Elapsed: time.Second,
			Losses: []wire.Loss{{Cause: "late", N: 1}}, Counts: []wire.Loss{{Cause: "a", N: 2}, {Cause: "b", N: 3}}},
		"0 rows in 0ns, complete (1 call unfinished)":                                     counting(1, "calls unfinished"),
		"0 rows in 0ns, complete (1 child process not observed (SET follow))":             counting(1, "child processes not observed (SET follow)"),
		"0 rows in 0ns, complete (2 child processes not observed)":                        counting(2, "child processes not observed"),
		"0 rows in 0ns, complete (1 failed search for calls under way)":                   counting(1, "failed searches for calls under way"),
		"0 rows in 0ns, complete (1 Java virtual machine that has started)":               counting(1, "Java virtual machines that have started"),
		"0 rows in 0ns, complete (1 unfinished)":                                          counting(1, "unfinished"),
		"0 rows in 0ns, complete (1 process not followed: too many run)":                  counting(1, "processes not followed: too many run"),
		"0 rows in 0ns, complete (1 stack that does not reach its first function: calls)": counting(1, "stacks that do not reach its first function: calls"),
	} {
		if got := Footer(s); got != want {
			t.Errorf("%+v\n got %s\nwant %s", s, got, want)
		}
	}
}

func counting(n uint64, cause string) wire.Summary {
	return wire.Summary{Counts: []wire.Loss{{Cause: cause, N: n}}}
}

// newRunner returns a runner with a fake engine, which fails the test at its end if
// anything is still attached.
func newRunner(t *testing.T, out io.Writer) (r *Runner, notes *bytes.Buffer) {
	t.Helper()
	e, err := fake.New()
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewSession(t.Context(), wire.Options{Live: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	notes = &bytes.Buffer{}
	return &Runner{Session: s, Signals: NewSignals(func(os.Signal) {}), Out: NewOutput(out, render.CSV), Err: notes}, notes
}

// whenWritten calls f after the first write.
type whenWritten struct {
	bytes.Buffer
	f func()
}

func (w *whenWritten) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if f := w.f; f != nil {
		w.f = nil
		f()
	}
	return n, err
}

func TestSignalEndsTheQueryWithItsResult(t *testing.T) {
	for sig, want := range map[os.Signal]error{
		os.Interrupt: nil, syscall.SIGTERM: ErrTerminated, syscall.SIGHUP: ErrTerminated,
	} {
		out := &whenWritten{}
		r, notes := newRunner(t, out)
		out.f = func() { // twice, as timeout(1) does: that is one signal
			r.Signals.Deliver(sig)
			r.Signals.Deliver(sig)
		}
		if err := r.Statement(t.Context(), "SELECT * FROM endless"); err != want {
			t.Errorf("%v: %v, want %v", sig, err, want)
		}
		if !r.Stopped() || !strings.Contains(notes.String(), "complete") {
			t.Errorf("%v: Stopped is %v, the footer %q", sig, r.Stopped(), notes)
		}
	}
}

// When a client's context is done, nothing stays attached.
func TestCancelAbandons(t *testing.T) {
	for _, statement := range []string{"SELECT * FROM endless", "SELECT * FROM silent", "SELECT * FROM totals"} {
		r, _ := newRunner(t, io.Discard)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if err := r.Statement(ctx, statement); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", statement, err)
		}
		cancel()
	}
}

// failing is a writer whose writes fail.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestWriteErrorsEndTheQuery(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "out", Err: syscall.ENOSPC}
	r, _ := newRunner(t, failing{full})
	if err := r.Statement(t.Context(), "SELECT * FROM endless"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("disk full: %v", err)
	}
	r, _ = newRunner(t, failing{&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}})
	if err := r.Statement(t.Context(), "SELECT * FROM endless"); err != ErrOutputClosed {
		t.Errorf("reader gone: %v, want %v", err, ErrOutputClosed)
	}
}

// severed is a session whose connection breaks.
type severed struct{ wire.Session }

func (severed) Execute(context.Context, string, ...types.Value) (wire.Result, error) {
	return nil, &os.SyscallError{Syscall: "write", Err: syscall.EPIPE}
}

// A broken pipe elsewhere than at the output is an error: the output has its reader.
func TestBrokenPipeOfAConnectionIsAnError(t *testing.T) {
	r, _ := newRunner(t, io.Discard)
	r.Session = severed{r.Session}
	if err := r.Statement(t.Context(), "SELECT * FROM calls"); !errors.Is(err, syscall.EPIPE) || errors.Is(err, ErrOutputClosed) {
		t.Errorf("%v, want EPIPE", err)
	}
}

// cutShort is a session whose results end with an error that comes from the end of something
// else, or that cannot even begin.
type cutShort struct {
	wire.Session
	begin, end error
}

type cutResult struct {
	wire.Result
	end error
}

func (s cutShort) Execute(ctx context.Context, text string, _ ...types.Value) (wire.Result, error) {
	if s.begin != nil {
		return nil, s.begin
	}
	res, err := s.Session.Execute(ctx, text)
	return cutResult{res, s.end}, err
}

func (r cutResult) Next(context.Context) (wire.Event, error) { return wire.Event{}, r.end }

// An io.EOF from anywhere but the end of the result is an error, not a complete result.
func TestOnlyTheEndOfTheResultIsItsEnd(t *testing.T) {
	wrapped := fmt.Errorf("the connection: %w", io.EOF)
	for _, s := range []cutShort{{begin: io.EOF}, {begin: wrapped}, {end: wrapped}} {
		r, notes := newRunner(t, io.Discard)
		s.Session = r.Session
		r.Session = s
		if err := r.Statement(t.Context(), "SELECT * FROM calls"); err == nil {
			t.Errorf("%+v: no error", s)
		}
		if strings.Contains(notes.String(), "complete") {
			t.Errorf("%+v: the footer is %q", s, notes)
		}
	}
}

func TestPipeWithoutReaderIsNoticedWithoutRows(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	r, _ := newRunner(t, write)
	r.Out = NewOutput(write, render.JSONL)
	r.Out.WatchReader()
	time.AfterFunc(20*time.Millisecond, func() { _ = read.Close() })
	if err := r.Statement(t.Context(), "SELECT * FROM silent"); err != ErrOutputClosed {
		t.Errorf("%v, want %v", err, ErrOutputClosed)
	}
}

func TestSignalsGoToTheInnermost(t *testing.T) {
	var idle []os.Signal
	s := NewSignals(func(sig os.Signal) { idle = append(idle, sig) })
	s.Deliver(syscall.SIGTERM)
	outer, releaseOuter := s.Receive()
	inner, releaseInner := s.Receive()
	for range 3 { // more than anybody reads: Deliver must not block
		s.Deliver(os.Interrupt)
		s.Deliver(os.Interrupt) // the same, sent to the process and to its group
		s.Deliver(syscall.SIGTERM)
	}
	releaseInner()
	s.Deliver(syscall.SIGHUP)
	releaseOuter()
	s.Deliver(os.Interrupt)
	if len(inner) != 3 || len(outer) != 1 || len(idle) != 2 {
		t.Errorf("inner got %d, outer %d, idle %d; want 3, 1, 2", len(inner), len(outer), len(idle))
	}
}

// The second signal of timeout(1) may arrive when the first has already ended the
// statement: it must not end the program too.
func TestLateSecondSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var idle []os.Signal
		s := NewSignals(func(sig os.Signal) { idle = append(idle, sig) })
		_, release := s.Receive()
		s.Deliver(os.Interrupt)
		release()
		s.Deliver(os.Interrupt)
		if len(idle) != 0 {
			t.Errorf("%v is delivered twice", idle)
		}
		time.Sleep(together)
		s.Deliver(os.Interrupt)
		if len(idle) != 1 {
			t.Error("one that comes later is not delivered")
		}
	})
}

func TestErrorsHaveOneForm(t *testing.T) {
	mistake := &parser.Error{Msg: "no \x1b[2J", Hint: "write yes", Src: "SELECT\tno", Pos: parser.Span{Start: 7, Stop: 9}}
	for want, err := range map[string]error{
		"":                  ErrOutputClosed,
		"error: it broke\n": errors.New("it broke"),
		"error: no \\x1b[2J\n  SELECT\tno\n        \t^\nhint: write yes\n": mistake,
	} {
		var b bytes.Buffer
		PrintError(&b, err)
		if b.String() != want {
			t.Errorf("%v is printed as %q, want %q", err, b.String(), want)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStatementFailsWithEOF: an io.EOF is the end of a result only.
func TestStatementFailsWithEOF(t *testing.T) {
	r, _ := newRunner(t, io.Discard)
	want := fmt.Errorf("damaged: %w", io.EOF)
	if err := r.show(t.Context(), "", func(context.Context) (wire.Result, error) { return nil, want }); err != want {
		t.Errorf("%v, expected %v", err, want)
	}
}
