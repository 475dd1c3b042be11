package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/planner/plan"
)

// command is one backslash command.
type command struct {
	name  string
	short string // an alias; "": none
	args  string // as shown by \?
	about string
	run   func(s *Shell, ctx context.Context, arg string) error
}

// commands is filled by init because \?, one of them, lists them.
var commands []command

func init() {
	commands = []command{
		{"?", "", "", "this list", (*Shell).list},
		{"help", "h", "[topic]", "show the manual: the list of topics, or one topic, function or stream", (*Shell).manual},
		{"q", "", "", "leave (or Ctrl-D)", (*Shell).leave},
		{"d", "dt", "[stream]", "list the streams, or the columns of one", (*Shell).describe},
		{"df", "", "[pattern]", "list the functions of the language: \\df quantile, \\df %stack%", (*Shell).functions},
		{"notices", "", "", "show the notices of the last statement in full", (*Shell).notices},
		{"timing", "", "", "turn timing of statements on or off", (*Shell).timing},
		{"x", "", "[on|off|auto]", "expanded display (one line per column): on, off, or for rows wider than the screen", (*Shell).expanded},
		{"plot", "", "", "run the last statement again and draw its numbers as a chart", (*Shell).plot},
		{"p", "", "", "print the last statement", (*Shell).printLast},
		{"g", "", "", "run the last statement again", (*Shell).again},
		{"e", "", "[file]", "edit the last statement, or a file, with $EDITOR, and run it", (*Shell).edit},
		{"!", "", "[command]", "run a command of the shell", (*Shell).shell},
		{"save", "", "name", "save the last statement as a query for \\i", (*Shell).save},
		{"echo", "", "[text]", "write a text to the output", (*Shell).echo},
		{"watch", "", "[s]", "run the last statement again every s seconds (2) until Ctrl-C", (*Shell).watch},
		{"i", "", "file", "run the statements of a file, of an example, or of a saved query", (*Shell).include},
		{"examples", "", "[name]", "list example queries for \\i, or show one", (*Shell).listExamples},
		{"o", "", "[file]", "write rows to a file, in the format of its ending (help formats), else a table; or to the screen again", (*Shell).output},
		{"conninfo", "", "", "what this session is connected to", (*Shell).conninfo},
	}
}

func (s *Shell) command(ctx context.Context, src string) error {
	name, arg, _ := strings.Cut(src[1:], " ")
	arg = strings.TrimSpace(arg)
	name = strings.TrimRight(name, ";")
	arg = strings.TrimSpace(strings.TrimRight(arg, ";"))
	for _, c := range commands {
		if name == "" || c.name != name && c.short != name {
			continue
		}
		if c.args == "" && arg != "" {
			return mistake(`\? lists the commands`, `\%s takes nothing after it`, name)
		}
		return c.run(s, ctx, arg)
	}
	if hint := elsewhere[name]; hint != "" {
		return mistake(hint, `there is no command \%s`, name)
	}
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	if near := plan.Nearest(name, names, 1); near != nil && len(name) > 2 {
		return mistake(`did you mean \`+near[0]+`?`, `there is no command \%s`, name)
	}
	return mistake(`\? lists the commands`, `there is no command \%s`, name)
}

// elsewhere says how to do what other commands of psql are for.
var elsewhere = map[string]string{
	"c":       "USE 'process', USE PID 42 or USE '/path' chooses another target",
	"connect": "USE 'process', USE PID 42 or USE '/path' chooses another target",
	"l":       "SHOW PROCESSES lists what can be observed",
	"dv":      "SHOW STREAMS lists the streams, also those of CREATE STREAM",
	"di":      "SHOW STREAMS, SHOW TRIGGERS and SHOW MODELS list what there is",
	"du":      "endoscope help permissions says who may observe what",
	"set":     "SET setting = value; SHOW SETTINGS lists them",
	"pset":    `\x, \o FILE and --format choose how rows are shown`,
	"copy":    "INSERT INTO file('rows.csv') SELECT ... writes rows to a file",
	"a":       "--format csv writes rows without alignment",
}

func (s *Shell) list(context.Context, string) error {
	for _, c := range commands {
		fmt.Fprintf(s.run.Err, "  \\%-16s %s\n", strings.TrimSpace(c.name+" "+c.args), c.about)
	}
	fmt.Fprintln(s.run.Err, "Statements end with a semicolon. Ctrl-C ends a query and shows its result so far; twice abandons it.")
	return nil
}

func (s *Shell) leave(context.Context, string) error {
	s.quit = true
	return nil
}

func (s *Shell) describe(ctx context.Context, stream string) error {
	statement := "SHOW STREAMS"
	if stream != "" {
		statement = "DESCRIBE " + stream
	}
	return s.run.Statement(ctx, statement)
}

func (s *Shell) timing(context.Context, string) error {
	s.run.Timing = !s.run.Timing
	fmt.Fprintf(s.run.Err, "Timing is %s.\n", onOff(s.run.Timing))
	return nil
}

func (s *Shell) expanded(_ context.Context, arg string) error {
	x, auto := !s.run.Out.Render.Expanded, false
	switch strings.ToLower(arg) {
	case "":
	case "on", "off":
		x = strings.EqualFold(arg, "on")
	case "auto":
		x, auto = false, true
	default:
		return mistake(`\x auto`, `\x takes on, off or auto, not %q`, arg)
	}
	for _, o := range []*runner.Output{s.home, s.run.Out} {
		o.Render.Expanded, o.Render.Auto = x, auto
	}
	if auto {
		fmt.Fprintln(s.run.Err, "Expanded display is on for rows wider than the screen.")
		return nil
	}
	fmt.Fprintf(s.run.Err, "Expanded display is %s.\n", onOff(x))
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// watch repeats the last statement. The Ctrl-C that ends the statement also ends the
// watch.
func (s *Shell) watch(ctx context.Context, arg string) error {
	every := 2.0
	if arg != "" {
		var err error
		if every, err = strconv.ParseFloat(strings.TrimSuffix(arg, "s"), 64); err != nil || !(every >= 0.1 && every <= 1e6) {
			return mistake(`\watch 5`, `\watch needs a number of seconds, at least 0.1, not %q`, arg)
		}
	}
	if s.last == "" {
		return mistake("run a statement first", `there is no statement for \watch to repeat`)
	}
	pause := time.Duration(every * float64(time.Second))
	signals, release := s.run.Signals.Receive()
	defer release()
	for {
		fmt.Fprintf(s.run.Err, "%s, every %s\n", time.Now().Format(time.TimeOnly), render.HumanDuration(pause.Nanoseconds()))
		err := s.run.Statement(ctx, s.last)
		if err != nil || s.run.Stopped() {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sig := <-signals:
			if sig != os.Interrupt {
				return runner.ErrTerminated
			}
			return nil
		case <-time.After(pause):
		}
	}
}

// maxDepth limits the nesting of \i, to detect a file that includes itself.
const maxDepth = 16

func (s *Shell) include(ctx context.Context, path string) error {
	if path == "" {
		return mistake(`\i queries.sql`, `\i needs the name of a file`)
	}
	if s.depth == maxDepth {
		return mistake("", `%s: files include files more than %d deep`, path, maxDepth)
	}
	var from io.Reader
	f, err := os.Open(path)
	if text, ok := example(path); err != nil && ok {
		from = strings.NewReader(text)
	} else if text, ok := saved(path); err != nil && ok {
		from = strings.NewReader(text)
	} else if err != nil {
		return fileError(err)
	} else {
		defer f.Close()
		from = f
	}
	s.depth++
	defer func() { s.depth-- }()
	in := NewLines(from, nil)
	defer in.Close()
	return s.Script(ctx, in)
}

func (s *Shell) output(_ context.Context, path string) error {
	expanded := s.run.Out.Render.Expanded
	if path == "" {
		s.run.Out = s.home
		return s.closeFile()
	}
	f, err := runner.CreateFile(path)
	if err != nil {
		return fileError(err)
	}
	closeErr := s.closeFile()
	s.file = f
	format, _ := render.FormatOf(path)
	s.run.Out = runner.NewOutput(f, format)
	s.run.Out.Render.Expanded = expanded
	return closeErr
}

// fileError formats the error of a file as one line: open x: no such file.
func fileError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return mistake("", "%s: %v", p.Path, p.Err)
	}
	return err
}

func (s *Shell) conninfo(context.Context, string) error {
	for _, l := range s.run.Session.Info() {
		fmt.Fprintln(s.run.Err, render.Escape(l))
	}
	return nil
}
