package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"endoscope/client/demo"
	"endoscope/client/fleet/root"
	"endoscope/server/wire"
)

// FleetDemo is a fleet in one process.
type FleetDemo struct {
	Hosts    int
	Programs []int // process ids; the hosts observe one each, in turn
	Version  string
}

// Limits of the demonstration.
const (
	mostDemoHosts    = 1000
	demoPrograms     = 2
	mostDemoPrograms = 16
)

func init() {
	addCommand(func(p *Program) *cobra.Command {
		c := &cobra.Command{
			Use:   "fleet",
			Short: "one query over many hosts",
			Long: `A fleet is a set of hosts that run endoscoped --fleet URL; endoscope --fleet URL queries all of
them as one. The manual has the rest: endoscope help fleet.`,
			Args: cobra.ArbitraryArgs,
			RunE: func(c *cobra.Command, args []string) error {
				return cmp.Or(noArguments(c, args), usagef("endoscope fleet demo", "fleet needs a command"))
			},
		}
		c.AddCommand(p.fleetDemo())
		return c
	})
}

func (p *Program) fleetDemo() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo [--hosts N] [-c SQL]...",
		Short: "a fleet in this process, with a bus of its own",
		Long: `Starts a NATS server that listens nowhere and the agents of N hosts, all in this process,
and queries them as one. The hosts observe small programs that are part of endoscope: a few,
which they share, so that a call is counted by each host that observes its program. Each has its part of the cost.
host_label('program') is which one. Everything ends with the command.`,
		Example: `  endoscope fleet demo --hosts 100 -c "SELECT function_name, COUNT(*), QUANTILE(duration, 0.99)
      FROM function_duration GROUP BY function_name EMIT EVERY 1s FOR 5s"
  endoscope fleet demo -c "SHOW HOSTS"`,
		Args: cobra.ArbitraryArgs,
	}
	f := p.define(c, statementFlags, outputFlags)
	hosts := c.Flags().Int("hosts", 100, "the number of hosts (`N`)")
	programs := c.Flags().Int("programs", demoPrograms, "the number of programs (`N`) that they observe")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cmp.Or(f.arguments(c, args), f.check()); err != nil {
			return err
		}
		switch {
		case *hosts < 1 || *hosts > mostDemoHosts:
			return usagef("", "--hosts must be from 1 to %d", mostDemoHosts)
		case *programs < 1 || *programs > min(mostDemoPrograms, *hosts):
			return usagef("", "--programs must be from 1 to %d", min(mostDemoPrograms, *hosts))
		case p.ServeFleet == nil:
			return errors.New("this program has no agents")
		}
		return p.runFleet(c.Context(), f, *hosts, *programs)
	}
	return c
}

// runFleet runs statements over a fleet in this process.
func (p *Program) runFleet(ctx context.Context, f *flags, hosts, programs int) (err error) {
	d := FleetDemo{Hosts: hosts, Version: p.version()}
	for range programs {
		target, err := demo.Start()
		if err != nil {
			return err
		}
		defer func() { _ = target.Stop() }()
		d.Programs = append(d.Programs, target.PID())
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	at, wait, err := p.ServeFleet(serving, d)
	if err != nil {
		return err
	}
	defer func() {
		stop()
		err = errors.Join(err, wait())
	}()
	fmt.Fprintf(p.Stderr, "notice: %d hosts in this process observe %d programs: a call is counted by each host that observes its program\n", hosts, programs)
	f.dial = func() (wire.Engine, error) {
		e, err := root.Dial(ctx, root.Options{Bus: *at})
		if err != nil {
			return nil, err
		}
		if err := e.Await(ctx, hosts, 1); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	}
	return p.run(ctx, f)
}
