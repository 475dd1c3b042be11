package client

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"endoscope/client/runner"
	"endoscope/client/top"
	"endoscope/server/wire"
)

func init() {
	addCommand(func(p *Program) *cobra.Command {
		c := &cobra.Command{
			Use:   "top -p PID | --process NAME | --exe PATH",
			Short: "show the functions of a program live, by calls, time and cost",
			Long: `Shows the functions of a program live on the whole screen: calls per second, total
and self time, mean and 99th percentile of their durations, and what counting them
costs. What is measured is chosen so that it takes 1 % of the CPU time that the program
uses; the screen says what it does take. What it estimates for that has a ~.`,
			Example: `  endoscope top -p 4711
  endoscope top --process redis-server --overhead 5%`,
			Args: noArguments,
		}
		f := p.define(c, targetFlags, connectionFlags)
		overhead := c.Flags().String("overhead", "1%", "the share of the program's CPU time that the measurement may take")
		c.RunE = func(c *cobra.Command, _ []string) error {
			limit, err := strconv.ParseFloat(strings.TrimSuffix(*overhead, "%"), 64)
			if err != nil || !(limit > 0 && limit < 100) {
				return usagef("endoscope top -p PID --overhead 1%", "--overhead is more than 0%% and less than 100%%, not %s", *overhead)
			}
			if err := cmp.Or(f.check(), f.needsTarget("top")); err != nil {
				return err
			}
			if !isTerminal(p.Stdin) || !isTerminal(p.Stdout) {
				return usagef(`endoscope -p PID -c "SELECT ... EMIT EVERY 1s" writes rows to files and pipes`, "top needs a terminal")
			}
			return p.session(c.Context(), f, wire.Options{}, func(ctx context.Context, s wire.Session, _ *runner.Signals) error {
				return top.Run(ctx, s, f.target(), limit/100, os.Stdin, os.Stdout)
			})
		}
		return c
	})
}

// needsTarget rejects a command line without a target.
func (f *flags) needsTarget(command string) error {
	if f.pid == 0 && f.process == "" && f.exe == "" && f.command == nil {
		return usagef(fmt.Sprintf("endoscope %s --process NAME, -p PID or --exe PATH", command), "%s needs a program to observe", command)
	}
	return nil
}

// target returns the target as text.
func (f *flags) target() string {
	switch {
	case f.pid != 0:
		return fmt.Sprintf("pid %d", f.pid)
	case f.command != nil:
		return strings.Join(f.command, " ")
	}
	return cmp.Or(f.process, f.exe)
}
