package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"endoscope/client/help"
	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/parser"
)

// Commands about the last statement, and about statements in files.

// again runs the last statement again.
func (s *Shell) again(ctx context.Context, _ string) error {
	if s.last == "" {
		return mistake("run a statement first", "there is no last statement")
	}
	return s.run.Statement(ctx, s.last)
}

// plot runs the last statement again, and draws its result as a chart.
func (s *Shell) plot(ctx context.Context, _ string) error {
	format := s.run.Out.Format
	s.run.Out.Format = render.Plot
	defer func() { s.run.Out.Format = format }()
	return s.again(ctx, "")
}

func (s *Shell) printLast(context.Context, string) error {
	if s.last == "" {
		return mistake("run a statement first", "there is no last statement")
	}
	fmt.Fprintln(s.run.Err, render.Escape(strings.TrimSpace(s.last))+";")
	return nil
}

func (s *Shell) notices(context.Context, string) error {
	for _, n := range s.run.Notices {
		fmt.Fprintln(s.run.Err, render.Escape("notice: "+n))
	}
	if len(s.run.Notices) == 0 {
		fmt.Fprintln(s.run.Err, "The last statement has no notices.")
	}
	return nil
}

func (s *Shell) echo(_ context.Context, text string) error {
	_, err := fmt.Fprintln(s.run.Out, text)
	return err
}

// functions lists the functions of the language whose names match a pattern.
func (s *Shell) functions(_ context.Context, pattern string) error {
	found := help.Functions(pattern)
	if len(found) == 0 {
		return mistake(`\df lists all`, "there is no function like %s", pattern)
	}
	for _, f := range found {
		fmt.Fprintf(s.run.Err, "  %-18s %s\n", f.Name, f.Summary)
	}
	fmt.Fprintln(s.run.Err, `\help NAME shows the arguments of one. SHOW FUNCTIONS lists the functions of the target.`)
	return nil
}

// shell runs a command of the shell, or a shell.
func (s *Shell) shell(_ context.Context, command string) error {
	name := os.Getenv("SHELL")
	if name == "" {
		name = "/bin/sh"
	}
	cmd := exec.Command(name)
	if command != "" {
		cmd = exec.Command(name, "-c", command)
	}
	return s.foreground(cmd)
}

// foreground runs a program on the terminal. It gets the signals.
func (s *Shell) foreground(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_, release := s.run.Signals.Receive()
	defer release()
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return mistake("", "%s: %v", filepath.Base(cmd.Path), exit)
	}
	if err != nil {
		return mistake("$SHELL and $EDITOR name the programs", "%s does not start: %v", filepath.Base(cmd.Path), err)
	}
	return nil
}

// edit opens an editor for the last statement or a file, and runs what is in it.
func (s *Shell) edit(ctx context.Context, path string) error {
	if path == "" {
		f, err := os.CreateTemp("", "endoscope-*.sql")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		if s.last != "" {
			_, err = io.WriteString(f, strings.TrimSpace(s.last)+";\n")
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		path = f.Name()
	}
	editor := strings.Fields(os.Getenv("VISUAL"))
	if len(editor) == 0 {
		editor = strings.Fields(os.Getenv("EDITOR"))
	}
	if len(editor) == 0 {
		editor = []string{"vi"}
	}
	if err := s.foreground(exec.Command(editor[0], append(editor[1:], path)...)); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fileError(err)
	}
	for _, p := range parser.Split(string(text)) {
		fmt.Fprintln(s.run.Err, render.Escape(strings.TrimSpace(p.Text))+";")
	}
	return s.Do(ctx, Text{Src: string(text)})
}

// configDir returns the directory of rc and of saved queries; "" if there is none.
func configDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "endoscope")
}

// startup runs the file rc. Its errors are printed.
func (s *Shell) startup(ctx context.Context) error {
	path := filepath.Join(configDir(), "rc")
	if _, err := os.Stat(path); configDir() == "" || err != nil {
		return nil
	}
	err := s.include(ctx, path)
	if errors.Is(err, runner.ErrTerminated) || errors.Is(err, runner.ErrOutputClosed) {
		return err
	}
	runner.PrintError(s.run.Err, err)
	s.last = ""
	return nil
}

// savedFile returns the file of a saved query; "" if the name is not one.
func savedFile(name string) string {
	if configDir() == "" || name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return ""
	}
	return filepath.Join(configDir(), "queries", name+".sql")
}

// saved returns the text of a saved query.
func saved(name string) (text string, ok bool) {
	path := savedFile(name)
	if path == "" {
		return "", false
	}
	b, err := os.ReadFile(path)
	return string(b), err == nil
}

// savedNames returns the names of the saved queries.
func savedNames() (names []string) {
	files, _ := os.ReadDir(filepath.Join(configDir(), "queries")) // none: nothing is saved
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".sql"); ok {
			names = append(names, name)
		}
	}
	return names
}

// save saves the last statement.
func (s *Shell) save(_ context.Context, name string) error {
	path := savedFile(name)
	switch {
	case path == "":
		return mistake(`\save slow-calls`, `\save needs a name without slashes`)
	case s.last == "":
		return mistake("run a statement first", "there is no last statement")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fileError(err)
	}
	if err := os.WriteFile(path, []byte(strings.TrimSpace(s.last)+";\n"), 0o600); err != nil {
		return fileError(err)
	}
	fmt.Fprintf(s.run.Err, "saved; \\i %s runs it\n", name)
	return nil
}
