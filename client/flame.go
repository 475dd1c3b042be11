package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/parser"
	"endoscope/server/wire"
)

// flameQuery draws a flame graph; %s are a condition on the state of threads, and how long
// it samples.
const flameQuery = `SELECT svg(TRIE(stack, state, syscall)) AS svg, COUNT(*) AS samples,
  COUNT(DISTINCT tid) AS threads, COUNT(*) FILTER (WHERE NOT complete) AS cut
FROM SAMPLE(stack_sample, 10ms) WHERE %s FOR %s`

// flameFor is how long stacks are sampled by default.
const flameFor = "10s"

func init() {
	addCommand(func(p *Program) *cobra.Command {
		c := &cobra.Command{
			Use:   "flame -p PID | --process NAME | --exe PATH [-o FILE.svg] [FOR DURATION] [-- CMD ARGS...]",
			Short: "draw a flame graph of the CPU time of a program",
			Long: `Samples the stacks of a program for 10 s, or FOR DURATION, and draws them as a flame
graph: an SVG for a browser, where a click on a function zooms. It is written to FILE,
to standard output if that is a file or a pipe, else to flame-PROGRAM-TIME.svg. Ctrl-C
ends the sampling and draws what there is.`,
			Example: `  endoscope flame -p 4711
  endoscope flame --process redis-server -o cpu.svg FOR 30s
  endoscope flame -p 4711 --off-cpu >waits.svg
  endoscope flame -- ./server --port 8080`,
			Args: cobra.ArbitraryArgs,
		}
		f := p.define(c, targetFlags, connectionFlags)
		c.Flags().StringVarP(&f.output, "output", "o", "", "write the SVG to `FILE`")
		offCPU := c.Flags().Bool("off-cpu", false, "where threads wait or are blocked, instead of where they run")
		c.RunE = func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); at >= 0 {
				f.command, args = args[at:], args[:at]
				if len(f.command) == 0 {
					return usagef("endoscope flame -- ./server --port 80", "-- needs a program")
				}
			}
			length, err := flameLength(args)
			f.format = render.JSONL // whatever the ending of the file: its text is made here
			if err := cmp.Or(err, f.check(), f.needsTarget("flame")); err != nil {
				return err
			}
			return p.flame(c.Context(), f, *offCPU, length)
		}
		return c
	})
}

// flameLength returns the duration of FOR.
func flameLength(args []string) (string, error) {
	if len(args) == 0 {
		return flameFor, nil
	}
	text := strings.Join(args, " ")
	if len(args) > 1 && strings.EqualFold(args[0], "for") {
		text = strings.Join(args[1:], " ")
	}
	if _, err := parser.Parse("SELECT * FROM x FOR " + text); err != nil {
		return "", usagef("endoscope flame -p PID FOR 30s", "%q is not how long to sample", strings.Join(args, " "))
	}
	return text, nil
}

// flame samples, and writes the graph.
func (p *Program) flame(ctx context.Context, f *flags, offCPU bool, length string) error {
	state, doing := "state = 'RUN'", "on a CPU"
	if offCPU {
		state, doing = "state <> 'RUN'", "waiting or blocked"
	}
	var row bytes.Buffer
	statement := fmt.Sprintf(flameQuery, state, length)
	err := p.session(ctx, f, wire.Options{}, func(ctx context.Context, s wire.Session, signals *runner.Signals) error {
		fmt.Fprintf(p.Stderr, "sampling the stacks of %s for %s; Ctrl-C ends it earlier\n", render.Escape(f.target()), length)
		r := runner.Runner{Session: s, Signals: signals, Out: runner.NewOutput(&row, render.JSONL), Err: p.Stderr, ErrTTY: isTerminal(p.Stderr)}
		return r.Statement(ctx, statement)
	})
	if err != nil {
		return err
	}
	var graph struct {
		SVG                   string
		Samples, Threads, Cut int64
	}
	if err := json.Unmarshal(row.Bytes(), &graph); err != nil {
		return fmt.Errorf("the flame graph cannot be read: %w", err)
	}
	if graph.Samples == 0 {
		hint := "--off-cpu shows where its threads wait"
		if offCPU {
			hint = "without --off-cpu it shows where its threads run"
		}
		return &failure{fmt.Sprintf("no thread of %s was %s in %s", f.target(), doing, length), hint}
	}
	name, err := p.writeFlame(f, graph.SVG)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "%s shows %d samples of threads that were %s (%d of them)", name, graph.Samples, doing, graph.Threads)
	if graph.Cut > 0 {
		fmt.Fprintf(p.Stderr, "; the stacks of %d end before the thread's first function", graph.Cut)
	}
	fmt.Fprintln(p.Stderr)
	return nil
}

// failure is an error of a command, with a hint.
type failure struct{ msg, hint string }

func (f *failure) Error() string { return f.msg }

// Hint is printed below the error.
func (f *failure) Hint() string { return f.hint }

// unfitForFile matches what has no place in the name of a file.
var unfitForFile = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// writeFlame writes a graph to the file of -o, to standard output, or, on a terminal, to a
// new file. It returns how to call that in a message.
func (p *Program) writeFlame(f *flags, svg string) (name string, err error) {
	name = f.output
	if name == "" {
		if !isTerminal(p.Stdout) {
			_, err := io.WriteString(p.Stdout, svg)
			return "the flame graph", err
		}
		of := strings.Trim(unfitForFile.ReplaceAllString(f.target(), "-"), "-")
		name = fmt.Sprintf("flame-%s-%s.svg", of, time.Now().Format("20060102-150405"))
	}
	return render.Escape(name), os.WriteFile(name, []byte(svg), 0o666)
}
