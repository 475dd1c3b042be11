package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"endoscope/client/render"
	"endoscope/parser"
	"endoscope/server/wire"
)

// Reasons other than its own end or error for which a statement ends.
var (
	// ErrInterrupted: abandoned by a second Ctrl-C, or by one before it started.
	ErrInterrupted = errors.New("interrupted")
	// ErrOutputClosed: the output has no reader (| head).
	ErrOutputClosed = errors.New("output closed")
	// ErrTerminated: the statement returned what it had, and the program should exit.
	ErrTerminated = errors.New("terminated")
)

// tick is how long after a step held-back rows are shown: short enough to appear
// immediate, long enough that the first rows of a burst are aligned together.
const tick = 200 * time.Millisecond

// Runner executes statements one after the other. Its settings may be changed between
// statements.
type Runner struct {
	Session wire.Session
	Signals *Signals
	Out     *Output
	Err     io.Writer // notices, messages, footers, errors
	ErrTTY  bool      // Err is a terminal, which echoes Ctrl-C as ^C
	Notes   *Notes    // messages of triggers; nil: none
	Timing  bool      // print how long each statement took at the client

	// Notices are those of the last statement. On a terminal only their beginnings are shown.
	Notices []string
	// Pager shows a result that is longer than the terminal, if it came at once, and reports
	// whether it did; nil: results are written as they come.
	Pager func(text string) bool

	ended bool // ended by a signal
}

// Stopped reports whether a signal ended the last statement.
func (r *Runner) Stopped() bool { return r.ended }

// run is one statement in progress.
type run struct {
	*Runner
	text    string // the statement
	res     wire.Result
	rend    render.Renderer // nil until the columns are known, and for statements without rows
	printed bool            // the result's message has been printed
	stops   int             // signals so far
	exit    bool            // the program should exit

	began, started, firstRow time.Time
}

// Statement executes one statement, without its semicolon, and shows its result. The
// first SIGINT, SIGTERM or SIGHUP ends the query, and the rows so far are shown as
// its result; a second abandons it. The error is the statement's (not yet printed),
// one of the three above, or the output's.
func (r *Runner) Statement(ctx context.Context, text string) error {
	r.Out.Render.InPlace = redraws(text)
	return r.show(ctx, text, func(ctx context.Context) (wire.Result, error) { return r.Session.Execute(ctx, text) })
}

// redraws reports whether each result of a statement replaces the one before: those of EMIT
// EVERY are totals.
func redraws(text string) bool {
	st, err := parser.Parse(text)
	if err != nil {
		return false
	}
	q, ok := st.(*parser.Query)
	return ok && q.Emit != nil && q.Emit.Every != nil
}

// Triggered shows the rows of the session's triggers, as Statement shows a result,
// until all of them have ended.
func (r *Runner) Triggered(ctx context.Context) error {
	return r.show(ctx, "", func(context.Context) (wire.Result, error) { return r.Session.Triggered(false), nil })
}

func (r *Runner) show(ctx context.Context, text string, execute func(context.Context) (wire.Result, error)) error {
	signals, release := r.Signals.Receive()
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	steps := make(chan step)
	go pump(ctx, execute, steps)
	s := &run{Runner: r, text: text, began: time.Now()}
	r.Notices = nil
	if r.Pager != nil && r.Out.Terminal() {
		r.Out.hold()
	}
	err := s.loop(ctx, steps, signals)
	cancel()
	r.ended = s.stops > 0
	for st := range steps { // until the pump has closed the result
		drop(st)
	}
	if s.rend != nil && err != nil {
		_ = s.rend.Clear() // the error is printed next
		s.Out.cut()
	}
	if released := r.Out.release(); err == nil {
		err = released
	}
	if err == nil && s.exit {
		return ErrTerminated
	}
	return err
}

func (s *run) loop(ctx context.Context, steps <-chan step, signals <-chan os.Signal) error {
	due, waits := time.NewTimer(tick), true // without steps there is nothing to show, and nothing wakes the program
	defer due.Stop()
	for {
		select {
		case st, ok := <-steps:
			if !ok { // only after ctx was done
				return ctx.Err()
			}
			if done, err := s.step(st); done || err != nil {
				return err
			}
			if !waits {
				due.Reset(tick)
				waits = true
			}
		case <-due.C:
			waits = false
			if err := s.Out.release(); err != nil { // it goes on: it is shown as it comes
				return err
			}
			if s.rend != nil {
				if err := s.rend.Tick(); err != nil {
					return err
				}
			}
		case line := <-s.Notes.C():
			if err := s.printLine(s.Notes.Text(line)); err != nil {
				return err
			}
		case sig := <-signals:
			s.stops++
			s.exit = s.exit || sig != os.Interrupt
			if sig == os.Interrupt && s.ErrTTY {
				io.WriteString(s.Err, "\r\x1b[K") // erase the ^C
			}
			if s.res == nil || s.stops > 1 {
				return ErrInterrupted
			}
			s.res.Stop()
		case <-s.Out.Gone:
			return ErrOutputClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *run) step(st step) (done bool, err error) {
	switch {
	case st.over:
		return true, s.finish()
	case st.err != nil:
		return true, st.err
	case st.res != nil:
		s.res, s.started = st.res, time.Now()
		if cols := st.res.Columns(); cols != nil {
			if s.rend, err = s.Out.renderer(cols, s.about()); err != nil {
				return true, err
			}
		}
		return false, s.printMessage()
	}
	return false, s.event(st.ev)
}

// about says what the result is.
func (s *run) about() render.About {
	a := render.About{Query: s.text, Target: s.target, Start: s.started, Footer: func() string { return Footer(s.res.Summary()) }}
	if q, err := parser.Parse(s.text); err == nil {
		if q, ok := q.(*parser.Query); ok && q.Emit != nil {
			a.Emit = q.Emit.Mode
		}
	}
	return a
}

// target returns what the session observes.
func (s *run) target() string {
	for _, line := range s.Session.Info() {
		if target, ok := strings.CutPrefix(line, "target: "); ok {
			return target
		}
	}
	return ""
}

func (s *run) event(ev wire.Event) error {
	switch ev.Kind {
	case wire.Rows:
		defer drop(step{ev: ev})
		if s.rend == nil || ev.Batch == nil {
			return nil
		}
		if s.firstRow.IsZero() && !ev.Preview && ev.Batch.Len() > 0 {
			s.firstRow = time.Now()
		}
		return s.rend.Rows(ev.Batch, ev.Preview)
	case wire.Flush, wire.Preview:
		if s.rend == nil {
			return nil
		}
		return s.rend.Flush(ev.Kind == wire.Preview)
	case wire.Notice:
		s.Notices = append(s.Notices, ev.Text)
		return s.note(s.oneLine("notice: " + ev.Text))
	}
	return nil
}

// more ends a notice of which only the beginning is shown.
const more = ` ... (\notices)`

// oneLine cuts a notice to a line of the terminal; elsewhere it stays whole.
func (s *run) oneLine(text string) string {
	if !s.ErrTTY || !s.Out.Terminal() {
		return text
	}
	columns, _ := s.Out.Render.Size()
	runes := []rune(text)
	if len(runes) < columns && !strings.Contains(text, "\n") {
		return text
	}
	line, _, _ := strings.Cut(string(runes[:min(len(runes), max(columns-len(more)-1, 20))]), "\n")
	return line + more
}

// note writes a line between the rows.
func (s *run) note(text string) error { return s.printLine(render.Escape(text)) }

func (s *run) printLine(text string) error {
	if s.rend != nil {
		if err := s.rend.Clear(); err != nil {
			return err
		}
	}
	if err := s.Out.release(); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, text)
	return nil
}

// printMessage prints the result's message when there is one: after acceptance (SET) or at
// the end (INSERT).
func (s *run) printMessage() error {
	if s.printed || s.res.Message() == "" {
		return nil
	}
	s.printed = true
	return s.note(s.res.Message())
}

func (s *run) finish() error {
	if s.rend != nil {
		if err := s.rend.End(); err != nil {
			return err
		}
		if r, ok := s.rend.(render.Remarker); ok && r.Remark() != "" {
			if err := s.note("notice: " + r.Remark()); err != nil {
				return err
			}
		}
	}
	if err := s.Out.page(s.Pager); err != nil {
		return err
	}
	if err := s.printMessage(); err != nil {
		return err
	}
	sum := s.res.Summary()
	if s.rend != nil || sum.Rows > 0 || len(sum.Losses) > 0 || len(sum.Counts) > 0 {
		fmt.Fprintln(s.Err, render.Escape(Footer(sum)))
	}
	if s.Timing {
		s.time()
	}
	return nil
}

func (s *run) time() {
	since := func(t time.Time) string { return render.HumanDuration(t.Sub(s.began).Nanoseconds()) }
	var b strings.Builder
	fmt.Fprintf(&b, "time: %s to start", since(s.started))
	if !s.firstRow.IsZero() {
		fmt.Fprintf(&b, ", %s to the first row", since(s.firstRow))
	}
	fmt.Fprintf(&b, ", %s in all", since(time.Now()))
	fmt.Fprintln(s.Err, b.String())
}

// PrintError prints the error of a statement in the common form. Regular ends, such
// as an interrupt, are not printed.
func PrintError(w io.Writer, err error) {
	var mistake *parser.Error
	switch {
	case err == nil, errors.Is(err, ErrOutputClosed), errors.Is(err, ErrTerminated):
	case errors.As(err, &mistake):
		fmt.Fprintln(w, render.Escape(strings.TrimRight(parser.Format(mistake), "\n")))
	default:
		fmt.Fprintln(w, render.Escape("error: "+err.Error()))
		var known interface{ Hint() string }
		if errors.As(err, &known) && known.Hint() != "" {
			fmt.Fprintln(w, render.Escape("hint: "+known.Hint()))
		}
	}
}
