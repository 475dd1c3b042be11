package client

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"endoscope/planner/plan"
)

// makers make the commands of endoscope, one for each file that calls addCommand.
var makers []func(*Program) *cobra.Command

// addCommand adds a command. The file of a command calls it in init.
func addCommand(maker func(*Program) *cobra.Command) { makers = append(makers, maker) }

// root returns the command endoscope, which runs statements, with all others.
func (p *Program) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "endoscope [-p PID | --process NAME | --exe PATH] [-c SQL]... [-f FILE] [flags] [-- CMD ARGS...]",
		Short: "SQL over running programs",
		Long: `SQL over running programs. Without -c or -f, statements are read from a prompt,
or from standard input if that is not a terminal. CMD is started as the target,
stopped until the first query is armed; it shares this terminal's input and
output, and the processes that it starts are observed, too.

Rows go to standard output; notices, errors and the last line of a result
(rows, time, whether anything was lost, and what it cost the target) to standard
error. Ctrl-C ends a query and shows what it has; twice abandons it.

Exit code: 0 success, 1 a statement failed, 2 mistake in the command line.

endoscope help lists the topics of the manual: queries, streams, settings,
functions. endoscope help TOPIC shows one.`,
		Example: `  endoscope demo
  endoscope -p 4711 -c "SELECT function_name, COUNT(*), AVG(duration)
      FROM function_duration WHERE function_name LIKE 'handle_%'
      GROUP BY function_name FOR 10s"
  endoscope --exe /usr/sbin/nginx --format jsonl -f watch.sql | jq .duration
  endoscope -c "SELECT HISTOGRAM(duration) FROM function_duration
      WHERE function_name = 'main_loop' EMIT EVERY 1s" -- ./server --port 8080`,
		Args:              cobra.ArbitraryArgs, // f.arguments has better errors
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	c.CompletionOptions.DisableDefaultCmd = true
	f := p.define(c, targetFlags, statementFlags, outputFlags, connectionFlags)
	version := c.Flags().Bool("version", false, "print version, commit and date")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *version {
			return p.print(p.versionLine() + "\n")
		}
		if err := cmp.Or(f.arguments(c, args), f.check()); err != nil {
			return err
		}
		return p.run(c.Context(), f)
	}
	c.SetFlagErrorFunc(flagError)
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { p.helped = p.print(usageOf(c)) })
	c.SetHelpCommand(p.helpCommand())
	for _, maker := range makers {
		c.AddCommand(maker(p))
	}
	return c
}

// commandNames returns the names of the commands that users see.
func commandNames(root *cobra.Command) (names []string) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// noArguments refuses arguments of a command that has none.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(c.CommandPath()+" --help shows how it is used", "%s takes no argument %q", c.CommandPath(), args[0])
	}
	return nil
}

// oneOf accepts at most one argument, one of some words.
func oneOf(what string, words ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		hint := c.CommandPath() + " " + strings.Join(words, "|")
		switch {
		case len(args) == 0:
			return usagef(hint, "%s needs %s", c.CommandPath(), what)
		case len(args) > 1:
			return usagef(hint, "%s takes one argument", c.CommandPath())
		case slices.Contains(words, args[0]):
			return nil
		}
		if near := plan.Nearest(args[0], words, 1); near != nil {
			hint = "did you mean " + near[0] + "?"
		}
		return usagef(hint, "%q is not %s", args[0], what)
	}
}
