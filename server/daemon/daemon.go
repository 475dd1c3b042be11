package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// graceAtStop is how long clients have to take what their queries gave when the
// daemon ends.
const graceAtStop = 5 * time.Second

// Program is what the daemon is made of. The zero value is the real one.
type Program struct {
	Stderr  io.Writer                   // of logs and mistakes; nil: the process's
	Open    func() (wire.Engine, error) // nil: the engine with every provider
	Version string
	// Ready is told the addresses that are listened at, once they are.
	Ready func([]net.Addr)
}

// config is what the command line says.
type config struct {
	listen  string
	unix    string
	group   string
	timeout time.Duration
	json    bool
}

const usage = `usage: endoscoped --listen HOST:PORT | --unix PATH

The engine of endoscope as a daemon, for clients elsewhere:
endoscope --connect HOST:PORT, and any Arrow Flight SQL client.

`

func parse(args []string, w io.Writer) (*config, error) {
	c := &config{}
	f := flag.NewFlagSet("endoscoped", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() { fmt.Fprint(w, usage); f.PrintDefaults() }
	f.StringVar(&c.listen, "listen", "", "listen at this `host:port` (TCP)")
	f.StringVar(&c.unix, "unix", "", "listen at a socket with this `path`, which its group may use (mode 0660)")
	f.StringVar(&c.group, "group", "", "the `name` of the socket's group")
	f.DurationVar(&c.timeout, "client-timeout", 10*time.Second, "end the queries of clients that are silent this long")
	f.BoolVar(&c.json, "log-json", false, "log as JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("what is %q?", f.Arg(0))
	case c.listen == "" && c.unix == "":
		return nil, errors.New("--listen or --unix says where to listen")
	case c.timeout < time.Second:
		return nil, errors.New("--client-timeout needs a second or more")
	}
	return c, nil
}

// Run runs the daemon with arguments (without the program's name) until ctx is
// done, and returns its exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	if p.Open == nil {
		p.Open = func() (wire.Engine, error) { return server.New(server.Options{}) }
	}
	c, err := parse(args, p.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintln(p.Stderr, "error:", err)
		return exitUsage
	}
	var handler slog.Handler = slog.NewTextHandler(p.Stderr, nil)
	if c.json {
		handler = slog.NewJSONHandler(p.Stderr, nil)
	}
	log := slog.New(handler)
	if err := p.run(ctx, c, log); err != nil {
		log.Error("ended", "error", err)
		return exitFailed
	}
	return exitDone
}

// run opens the engine, serves it and closes it.
func (p Program) run(ctx context.Context, c *config, log *slog.Logger) (err error) {
	listeners, err := c.listeners()
	if err != nil {
		return err
	}
	engine, err := p.Open()
	if err != nil {
		for _, l := range listeners {
			_ = l.Close()
		}
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	service := flight.New(engine, flight.Options{Log: log, Version: p.Version, ClientTimeout: c.timeout})
	failed := make(chan error, len(listeners))
	var addrs []net.Addr
	for _, l := range listeners {
		addrs = append(addrs, l.Addr())
		log.Info("listening", "network", l.Addr().Network(), "address", l.Addr().String())
		go func() { failed <- service.Serve(l) }()
	}
	if p.Ready != nil {
		p.Ready(addrs)
	}
	select {
	case <-ctx.Done():
		log.Info("ending")
	case err = <-failed:
	}
	grace, cancel := context.WithTimeout(context.Background(), graceAtStop)
	defer cancel()
	service.Stop(grace)
	return err
}
