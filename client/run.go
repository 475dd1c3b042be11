package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"endoscope/client/demo"
	"endoscope/client/fleet"
	"endoscope/client/fleet/root"
	"endoscope/client/remote"
	"endoscope/client/render"
	"endoscope/client/repl"
	"endoscope/client/runner"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/guard"
)

// Exit codes; scripts rely on them.
const (
	exitDone   = 0
	exitFailed = 1 // a statement failed, or the engine was not available
	exitUsage  = 2
)

// livePreview is the interval of previews of a running result on a terminal.
const livePreview = time.Second

// Program holds the dependencies of the endoscope command. A nil stream is the
// process's own.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Open returns an engine in this process.
	Open func() (wire.Engine, error)
	// Launch starts a program for a session with an engine in another process of this
	// machine; nil if that is not supported.
	Launch func(argv []string) (remote.Command, error)
	// ServeWeb serves the web page of an engine until ctx is done. It writes
	// the page's address to out, and another one for each line of in if that is a terminal.
	// nil: there is no page.
	ServeWeb func(ctx context.Context, w WebPage, in io.Reader, out, errs io.Writer) error
	// ServeFleet runs the bus and the agents of a demonstration in this process until ctx is
	// done. nil: there is none.
	ServeFleet func(ctx context.Context, d FleetDemo) (*bus.Address, func() error, error)
	Version    string // "": as the go command has recorded it

	helped error // of writing the text of --help
}

// Run runs the command with arguments (without the program's name) and returns its
// exit code, after all probes are detached.
func (p Program) Run(ctx context.Context, args []string) int {
	if p.Stdin == nil {
		p.Stdin = os.Stdin
	}
	if p.Stdout == nil {
		p.Stdout = runner.Stdout()
	}
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	root := p.root()
	root.SetArgs(args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = p.helped
	}
	switch {
	case err == nil, errors.Is(err, runner.ErrOutputClosed), errors.Is(err, runner.ErrTerminated):
		return exitDone
	}
	if u, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintln(p.Stderr, render.Escape("error: "+u.msg))
		if u.hint != "" {
			fmt.Fprintln(p.Stderr, render.Escape("hint: "+u.hint))
		}
		return exitUsage
	}
	runner.PrintError(p.Stderr, err)
	return exitFailed
}

// print writes a text to standard output.
func (p *Program) print(text string) error {
	_, err := io.WriteString(p.Stdout, text)
	if errors.Is(err, syscall.EPIPE) { // the reader, such as head(1), has closed the pipe
		return nil
	}
	return err
}

// run opens the output and a session, and runs the statements.
func (p *Program) run(ctx context.Context, f *flags) (err error) {
	notes := runner.NewNotes()
	defer notes.Print(p.Stderr)
	o := wire.Options{Notify: notes.Add}
	rows := p.Stdout
	if f.output != "" {
		file, openErr := runner.CreateFile(f.output)
		if openErr != nil {
			return openErr
		}
		defer func() {
			renamed, closeErr := file.Close()
			err = errors.Join(err, closeErr)
			if renamed != "" {
				fmt.Fprintln(p.Stderr, render.Escape("notice: the rows so far are in "+renamed))
			}
		}()
		rows = file
	}
	out := runner.NewOutput(rows, f.format)
	if out.Terminal() && render.Binary(out.Format) {
		return usagef("-o FILE, or a pipe", "a terminal cannot show the format %s", out.Format)
	}
	out.WatchReader()
	if out.Terminal() && out.Format == render.Table {
		o.Live = livePreview
	}
	if f.demo {
		target, err := demo.Start()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, target.Stop()) }()
		o.PID = target.PID()
	}
	return p.session(ctx, f, o, func(ctx context.Context, s wire.Session, signals *runner.Signals) (err error) {
		sh := repl.New(&runner.Runner{Session: s, Signals: signals, Out: out, Err: p.Stderr, ErrTTY: isTerminal(p.Stderr), Notes: notes})
		defer func() { err = errors.Join(err, sh.Close()) }()
		return p.statements(ctx, f, sh, s, out, notes, o.PID)
	})
}

// session opens a session of the engine and the target that flags name, and closes
// everything after use. use may watch signals; without a watcher, a signal cancels its
// context.
func (p *Program) session(ctx context.Context, f *flags, o wire.Options, use func(context.Context, wire.Session, *runner.Signals) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals, stopSignals := watchSignals(cancel)
	defer stopSignals()
	engine, err := p.engine(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	o.PID, o.Process, o.Exe, o.Command = cmp.Or(o.PID, f.pid), f.process, f.exe, f.command
	session, err := engine.NewSession(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	err = use(ctx, session, signals)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause // the signal is more informative than "context canceled"
	}
	return err
}

// engine returns the engine in this process, or the one or several of --connect.
func (p *Program) engine(f *flags) (wire.Engine, error) {
	switch {
	case f.dial != nil:
		return f.dial()
	case f.fleet != "":
		at, trust, err := guard.Join(f.fleet, f.creds, "")
		if err != nil {
			return nil, err
		}
		return root.Dial(context.Background(), root.Options{Bus: at, Trust: trust})
	case f.connect == nil:
		return p.Open()
	}
	hosts := make([]fleet.Host, len(f.connect))
	for i, addr := range f.connect {
		o, err := f.as.options(addr, configDir())
		if err != nil {
			return nil, err
		}
		o.Launch = p.Launch
		e, err := remote.Dial(addr, o)
		if err != nil {
			return nil, err
		}
		if f.reconnect { // only one engine
			return remote.Reconnecting(e), nil
		}
		hosts[i] = fleet.Host{Name: addr, Engine: e}
	}
	if len(hosts) == 1 {
		return hosts[0].Engine, nil
	}
	return fleet.New(hosts), nil
}

// statements runs the statements of -c and -f, or else of standard input.
func (p *Program) statements(ctx context.Context, f *flags, sh *repl.Shell, s wire.Session, out *runner.Output, notes *runner.Notes, pid int) error {
	for _, sc := range f.scripts {
		if err := p.script(ctx, sc, sh); err != nil {
			return err
		}
		if sh.Quit() {
			return nil
		}
	}
	if len(f.scripts) > 0 {
		return sh.Wait(ctx)
	}
	if !isTerminal(p.Stdin) {
		if err := p.piped(ctx, sh, notes); err != nil {
			return err
		}
		return sh.Wait(ctx)
	}
	stop := showRows(ctx, s, notes)
	defer stop()
	fmt.Fprintf(p.Stderr, banner, p.version())
	if f.demo {
		fmt.Fprintf(p.Stderr, demoBanner, pid)
	}
	if !out.Terminal() { // prompts would be mixed into the rows
		lines := repl.NewLines(p.Stdin, p.Stderr)
		lines.ShowNotes(notes, p.Stderr)
		return sh.Interact(ctx, lines)
	}
	in, err := repl.NewTerminal(ctx, s, notes, out.Render.Color)
	if err != nil {
		fmt.Fprintln(p.Stderr, render.Escape(fmt.Sprintf("notice: the history is not saved: %v", err)))
	}
	return sh.Interact(ctx, in)
}

// piped runs the statements of standard input.
func (p *Program) piped(ctx context.Context, sh *repl.Shell, notes *runner.Notes) error {
	in := repl.NewLines(p.Stdin, nil)
	in.ShowNotes(notes, p.Stderr)
	defer in.Close()
	return sh.Script(ctx, in)
}

func (p *Program) script(ctx context.Context, sc script, sh *repl.Shell) error {
	if !sc.file {
		return sh.Do(ctx, repl.Text{Src: sc.text})
	}
	from := p.Stdin
	if sc.text != "-" {
		f, err := openScript(ctx, sc.text)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: no such file", sc.text)
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("%s: is a directory", sc.text)
		}
		from = f
	}
	in := repl.NewLines(from, nil)
	defer in.Close()
	return sh.Script(ctx, in)
}

// openScript opens a file of statements; it gives up when ctx is done, since opening
// a FIFO blocks until it has a writer.
func openScript(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(name)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, ctx.Err() // the program exits: the pending open ends with it
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// watchSignals passes the signals that end programs to the running statement. A
// signal between statements ends the program. A further one while the program is
// exiting, such as the second of timeout(1), does nothing: after stop signals are
// still caught, because by default they would kill a program that has finished its
// work.
//
// SIGPIPE is caught too, so that writing to a closed pipe returns EPIPE and the query
// ends in order. It is not ignored, because a program started by -- CMD would inherit
// that.
func watchSignals(cancel context.CancelCauseFunc) (signals *runner.Signals, stop func()) {
	signals = runner.NewSignals(func(sig os.Signal) {
		if sig == os.Interrupt {
			cancel(runner.ErrInterrupted)
		} else {
			cancel(runner.ErrTerminated)
		}
	})
	ending, pipe, done := make(chan os.Signal, 3), make(chan os.Signal, 1), make(chan struct{})
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) { // ignored for nohup and background jobs of a script
			signal.Notify(ending, sig)
		}
	}
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		for {
			select {
			case sig := <-ending:
				signals.Deliver(sig)
			case <-done:
				return
			}
		}
	}()
	return signals, func() {
		signal.Stop(pipe)
		close(done)
	}
}

// banner is printed before the first prompt.
const banner = `endoscope %s: statements end with a semicolon.
\? lists commands, \help shows the manual, Ctrl-D exits.
`
