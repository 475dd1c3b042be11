package client

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func init() {
	addCommand(func(p *Program) *cobra.Command {
		c := &cobra.Command{
			Use:   "demo [-c SQL]...",
			Short: "observe a small program that is part of endoscope",
			Long: `Starts a small multi-threaded program that is part of endoscope, and takes it as
the target of statements. The program ends with the command.`,
			Example: `  endoscope demo
  endoscope demo -c "SELECT function_name, COUNT(*), AVG(duration)
      FROM function_duration GROUP BY function_name FOR 5s"`,
			Args: cobra.ArbitraryArgs,
		}
		f := p.define(c, flagGroups...)
		f.demo = true
		c.Flags().VisitAll(func(x *pflag.Flag) { // accepted for the sake of a clear error
			if group := x.Annotations[groupOf][0]; group == targetFlags || group == connectionFlags {
				x.Hidden = true
			}
		})
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := cmp.Or(f.arguments(c, args), f.check()); err != nil {
				return err
			}
			return p.run(c.Context(), f)
		}
		return c
	})
}

// demoBanner follows banner in the demo.
const demoBanner = `A demo program is running (pid %d): a job queue with two workers, a timer,
a client and a reader of its requests, a cache, and a lock that all of them use. Try:

  SELECT function_name, COUNT(*) AS calls, AVG(duration), MAX(duration)
    FROM function_duration WHERE function_name IN (process_job, handle_request, lock_stats)
    GROUP BY function_name FOR 5s;

  SELECT timestamp, thread_name, arg0 AS job, duration FROM function_duration
    WHERE function_name = 'process_job' AND duration > 20ms LIMIT 5;

  SELECT HISTOGRAM(duration) FROM function_duration
    WHERE function_name = 'process_job' FOR 5s;

`
