package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/parser"
)

// Shell executes the pieces of an input. It is used by one goroutine.
type Shell struct {
	run  *runner.Runner
	home *runner.Output // output without \o
	file *runner.File   // of \o, or nil

	last  string // the last statement: repeated by \watch
	depth int    // nesting of \i
	quit  bool   // \q
	made  bool   // the last statement created a trigger
}

// New returns a shell that uses a runner. Commands change the runner's output and
// settings.
func New(r *runner.Runner) *Shell { return &Shell{run: r, home: r.Out} }

// Interact reads and executes until the input ends or \q. Errors are printed and do
// not end it. The statements and commands of the file rc are executed first.
func (s *Shell) Interact(ctx context.Context, in Input) error {
	defer s.closeFile()
	if f, ok := s.home.W.(*os.File); ok && s.home.Terminal() {
		s.run.Pager = func(text string) bool { return Page(f, text, s.run.Signals) }
	}
	if err := s.startup(ctx); err != nil {
		return err
	}
	for !s.quit {
		t, err := in.Read(ctx)
		switch {
		case errors.Is(err, ErrAborted):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := s.Do(ctx, t); {
		case errors.Is(err, runner.ErrTerminated), errors.Is(err, runner.ErrOutputClosed):
			return err
		case err != nil:
			runner.PrintError(s.run.Err, err)
		}
	}
	return nil
}

// Script reads and executes until the input ends, \q, or an error.
func (s *Shell) Script(ctx context.Context, in Input) error {
	for !s.quit {
		t, err := in.Read(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Do(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file of \o.
func (s *Shell) Close() error { return s.closeFile() }

// Quit reports whether \q was given.
func (s *Shell) Quit() bool { return s.quit }

// Do executes the statements of a text in order, or its backslash command, and stops
// at the first error.
func (s *Shell) Do(ctx context.Context, t Text) error {
	if c := commandOf(t.Src); c != "" {
		return s.command(ctx, c)
	}
	if t.Whole == "" {
		t.Whole = t.Src
	}
	for _, p := range parser.Split(t.Src) {
		s.last = p.Text
		s.made = false
		if err := s.run.Statement(ctx, p.Text); err != nil {
			return inContext(err, p.Text, t.Whole, t.Offset+p.Offset)
		}
		s.made = makesTrigger(p.Text)
	}
	return nil
}

// Wait is called at the end of a script. If its last statement created a trigger,
// Wait shows the rows of the script's triggers until their targets have exited or
// Ctrl-C.
func (s *Shell) Wait(ctx context.Context) error {
	if !s.made || s.quit {
		return nil
	}
	return s.run.Triggered(ctx)
}

func makesTrigger(statement string) bool {
	st, err := parser.Parse(statement)
	if err != nil {
		return false
	}
	_, ok := st.(*parser.CreateTrigger)
	return ok
}

// inContext translates the position of an error in a statement to a position in the
// surrounding text, so that the error states the line of the file.
func inContext(err error, statement, whole string, offset int) error {
	var e *parser.Error
	if !errors.As(err, &e) || e.Src != statement || e.Pos.Start < 0 {
		return err
	}
	moved := *e
	moved.Src = whole
	moved.Pos.Start += offset
	moved.Pos.Stop += offset
	return &moved
}

// mistake returns an error in the form of the language's errors.
func mistake(hint, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: parser.Span{Start: -1, Stop: -1}}
}

func (s *Shell) closeFile() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	renamed, err := f.Close()
	if renamed != "" {
		fmt.Fprintln(s.run.Err, render.Escape("notice: the rows so far are in "+renamed))
	}
	return err
}
