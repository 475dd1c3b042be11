package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"endoscope/client/demo"
	"endoscope/server/wire"
)

// WebPage is what Program.ServeWeb serves.
type WebPage struct {
	Listen  string // host:port of the loopback
	Session wire.SessionOptions
	Target  string // the name of that target, for the page
	Open    func() (wire.Engine, error)
	Version string
}

func init() {
	addCommand(func(p *Program) *cobra.Command {
		c := &cobra.Command{
			Use:   "web [demo | -p PID | --process NAME | --exe PATH] [--fleet URL | --connect ADDR] [--listen HOST:PORT]",
			Short: "serve a page for a browser",
			Long: `Serves a web page on the loopback: an editor, live tables and charts, flame graphs, plans
and triggers. Prints its address, which works once, within a minute. Enter prints another.`,
			Example: `  endoscope web demo
  endoscope web -p 4711 --listen 127.0.0.1:7004`,
			Args: cobra.ArbitraryArgs,
		}
		f := p.define(c, targetFlags, connectionFlags)
		listen := c.Flags().String("listen", "127.0.0.1:0", "serve it at this `HOST:PORT` of the loopback")
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "demo" {
				f.demo, args = true, args[1:]
			}
			if err := cmp.Or(noArguments(c, args), f.check()); err != nil {
				return err
			}
			return p.web(c.Context(), f, *listen)
		}
		return c
	})
}

// web serves the page until ctx is done or a signal arrives.
func (p *Program) web(ctx context.Context, f *flags, listen string) (err error) {
	if p.ServeWeb == nil {
		return errors.New("this program has no web page")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	w := WebPage{Listen: listen, Target: cmp.Or(f.target(), f.fleet, strings.Join(f.connect, ", "), "no target"), Version: p.version()}
	w.Open = func() (wire.Engine, error) { return p.engine(f) }
	w.Session = wire.SessionOptions{PID: f.pid, Process: f.process, Exe: f.exe}
	if f.demo {
		d, err := demo.Start()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Stop()) }()
		w.Session.PID = d.PID()
		w.Target = fmt.Sprintf("demo, pid %d", d.PID())
	}
	return p.ServeWeb(ctx, w, p.Stdin, p.Stdout, p.Stderr)
}
