package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"

	"endoscope/planner/plan"
	"endoscope/server"
	"endoscope/server/access"
	"endoscope/server/flight"
	"endoscope/server/grant"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// graceAtStop is how long clients may read the remaining rows of their queries when
// the daemon stops.
const graceAtStop = 5 * time.Second

// Program holds the daemon's dependencies. The zero value uses the real ones.
type Program struct {
	Stdout  io.Writer                            // output of commands; nil: os.Stdout
	Stderr  io.Writer                            // logs and errors; nil: os.Stderr
	Open    func(server.Options) (Engine, error) // nil: the engine with every provider
	Version string
	// Keep keeps the standing queries of a fleet until ctx is done; nil: it is not supported.
	Keep func(ctx context.Context, k Keeping) error
	// Reduce merges the results of the hosts of shards until ctx is done; nil: it is not
	// supported.
	Reduce func(ctx context.Context, r Reducing) error
	// Supervised runs a worker, a process of its own, and restarts it when it dies.
	Supervised bool
	// Ready is called with the addresses once the daemon listens there; that of
	// --metrics is last.
	Ready func([]net.Addr)
}

// Engine is the engine that the daemon serves.
type Engine interface {
	access.Engine
	Stats() server.Stats
	Gather(selected func(owner string) bool) []*dto.MetricFamily
	Restore(ctx context.Context, as func(owner string) (*grant.Grant, bool)) []server.Unrestored
}

// config is the parsed command line.
type config struct {
	listen  string
	unix    string
	group   string
	timeout time.Duration
	json    bool

	dir         string // of certificates, users and tokens
	access      string // "": the file users in dir
	revoked     string // "": the file revoked in dir, if there is one
	insecure    bool
	requireCert bool
	audit       string
	metrics     string
	web         string
	state       string
	agent       agentFlags
}

const usage = `usage: endoscoped --listen HOST:PORT | --unix PATH | --fleet URL
       endoscoped init --host NAME    creates certificates and a file of users
       endoscoped cert USER           creates a client certificate; --expires 12h: a short-lived one
       endoscoped token add USER      creates a token; also: token list, token revoke ID
       endoscoped enroll NAME         creates the credentials of a host of a fleet; --role author, --role reducer
       endoscoped revoke SERIAL       revokes a certificate
       endoscoped bus                 prints the users of a fleet for nats-server

The engine of endoscope as a daemon, for clients on other machines:
endoscope --connect HOST:PORT, and any Arrow Flight SQL client.

`

// parse parses the command line; help goes to w. Its errors are *mistake, or
// flag.ErrHelp.
func parse(args []string, w io.Writer) (*config, error) {
	c := &config{}
	f := newFlags("")
	f.StringVar(&c.listen, "listen", "", "listen on this `host:port` (TCP)")
	f.StringVar(&c.unix, "unix", "", "listen on a unix socket at this `path`, which its group may use (mode 0660)")
	f.StringVar(&c.group, "group", "", "the `name` of the socket's group")
	f.DurationVar(&c.timeout, "client-timeout", 10*time.Second, "end the queries of clients that do not respond for this long")
	f.StringVar(&c.dir, "config", defaultConfig, "the `directory` of certificates, users and tokens (endoscoped init)")
	f.StringVar(&c.access, "access", "", "the `file` of users and their permissions (default: users in the directory of --config)")
	f.StringVar(&c.revoked, "revoked", "", "the `file` of revoked client certificates: a CRL in PEM, or serial numbers, one a line (default: revoked in the directory of --config); it is reread when it changes")
	f.BoolVar(&c.insecure, "insecure", false, "listen without encryption where others can reach it, so that they can read and change what is sent")
	f.BoolVar(&c.requireCert, "require-certificate", false, "clients need a certificate even if they have a token")
	f.StringVar(&c.audit, "audit", "", "append what users do to this `file`, as lines of JSON (default: to the log)")
	f.StringVar(&c.metrics, "metrics", "", "serve /healthz and Prometheus' /metrics at this `host:port`: the daemon's own figures to anybody, those of CREATE EXPORT to users of this machine and by token")
	f.StringVar(&c.web, "web", "", "serve the web page at this `host:port`, with the same users and certificates as --listen")
	f.StringVar(&c.state, "state", "", "keep models and the definitions of streams, triggers and exports in this `directory`; they are restored after a restart")
	f.StringVar(&c.agent.url, "fleet", "", "join the fleet of the NATS server at this `url` (nats://HOST:4222; several, separated by commas), as a host that needs no open port")
	f.StringVar(&c.agent.creds, "creds", "", "the `file` of credentials for --fleet (endoscoped enroll): the bus then need not be trusted; NATS credentials: it is")
	f.StringVar(&c.agent.name, "fleet-name", "", "the `name` of this host in the fleet (default: its hostname)")
	f.BoolVar(&c.agent.standing, "standing", false, "keep the standing queries of the fleet (CREATE QUERY) with their results in the directory of --state; with --creds of a reducer this daemon is no host")
	f.BoolVar(&c.agent.reduce, "reduce", false, "merge what the hosts of the fleet send to roots, and nothing else: this daemon is no host and listens nowhere; with --creds of a reducer")
	f.IntVar(&c.agent.shards, "shards", defaultShards, "the `number` of parts into which the hosts are divided among the daemons with --reduce, the same for all of these")
	f.Var(&c.agent.labels, "label", "a label of this host, `key=value`, for host_label('key') in queries; may be repeated")
	f.BoolVar(&c.json, "log-json", false, "log as JSON")
	rest, err := parseFlags(f, args, 1)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w, usage)
		printFlags(w, f)
		return nil, err
	case err != nil:
		return nil, err
	case len(rest) > 0:
		hint := "endoscoped --help lists the arguments"
		if near := plan.Nearest(rest[0], slices.Collect(maps.Keys(commands)), 1); len(near) > 0 {
			hint = "did you mean " + near[0] + "?"
		}
		return nil, mistakef(hint, "unexpected argument %q", rest[0])
	case c.listen == "" && c.unix == "" && c.web == "" && c.agent.url == "" && !c.agent.reduce:
		return nil, mistakef("endoscoped --listen HOST:PORT, or endoscoped --unix PATH", "--listen, --unix, --web or --fleet is required")
	case c.timeout < time.Second:
		return nil, mistakef("--client-timeout 10s", "--client-timeout must be at least 1s")
	case c.agent.reduce && (c.listen != "" || c.unix != "" || c.web != "" || c.metrics != ""):
		return nil, mistakef("two programs, of which one has --reduce", "--reduce: a reducer executes no statements, and has no --listen, --unix, --web or --metrics")
	}
	return c, c.agent.check(c.state)
}

// Run runs the daemon with arguments (without the program's name) until ctx is done,
// and returns its exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	if p.Stdout == nil {
		p.Stdout = os.Stdout
	}
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	if p.Open == nil {
		p.Open = func(o server.Options) (Engine, error) { return server.New(o) }
	}
	if len(args) > 0 && commands[args[0]] != nil {
		return p.command(args[0], args[1:])
	}
	c, err := parse(args, p.Stdout)
	if err != nil {
		return p.refuse(err)
	}
	var handler slog.Handler = slog.NewTextHandler(p.Stderr, nil)
	if c.json {
		handler = slog.NewJSONHandler(p.Stderr, nil)
	}
	limited, flush := limit(handler, "")
	defer flush()
	log := slog.New(limited)
	work, inherited, err := inherit()
	if err != nil {
		return p.refuse(err)
	}
	if c.agent.reduce {
		return p.reduce(ctx, c, log)
	}
	if work == nil && p.Supervised {
		return p.supervise(ctx, c, args, log)
	}
	err = p.run(ctx, c, log, handler, work, inherited)
	var never *neverServed
	switch {
	case errors.As(err, &never):
		return p.refuse(err)
	case err != nil:
		log.Error("ended", "error", err)
		return exitFailed
	}
	return exitDone
}

// neverServed is the error of a daemon that could not start. It is printed as a
// mistake in the command line is, not logged.
type neverServed struct{ error }

func (e *neverServed) Unwrap() error { return e.error }

// command runs a subcommand.
func (p Program) command(name string, args []string) int {
	if err := commands[name](args, p.Stdout, p.Stderr); err != nil {
		return p.refuse(err)
	}
	return exitDone
}

// refuse prints err and returns its exit code.
func (p Program) refuse(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return exitDone // help was requested
	}
	fmt.Fprintln(p.Stderr, "error:", err)
	var m *mistake
	if !errors.As(err, &m) {
		return exitFailed
	}
	if m.hint != "" {
		fmt.Fprintln(p.Stderr, "hint:", m.hint)
	}
	return exitUsage
}

// run opens the engine, serves it and closes it.
// The log is limited; handler is not. A worker has a journal and inherits its listeners.
func (p Program) run(ctx context.Context, c *config, log *slog.Logger, handler slog.Handler, work *journal, l *opened) (err error) {
	served := false
	defer func() {
		if err != nil && !served {
			err = &neverServed{err}
		}
	}()
	sec, err := c.security(log, handler)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sec.close()) }()
	if l == nil {
		if l, err = c.open(); err != nil {
			return err
		}
	}
	listeners := l.serve
	defer func() {
		if !served {
			l.close()
		}
	}()
	how := make([]grpc.ServerOption, len(listeners))
	for i, l := range listeners {
		if how[i], err = c.secure(l, sec, log); err != nil {
			return err
		}
	}
	state, err := c.openState()
	if err != nil {
		return err
	}
	defer state.close()
	options := state.options()
	options.Metrics = l.metrics != nil
	keeps, err := c.agent.keeper(p, c.state, log)
	if err != nil {
		return err
	}
	if keeps != nil {
		options.Standing = keeps.Store
		defer keeps.Store.Close()
	}
	if work != nil {
		options.Journal = work
	}
	engine, err := p.Open(options)
	if err != nil {
		return err
	}
	guard := access.NewGuard(engine, sec.by, sec.audit)
	defer func() { err = errors.Join(err, guard.Close()) }()
	defer state.restore(ctx, engine, guard, log)()
	watched := l.metrics
	if watched != nil {
		defer monitor(watched, &collector{engine, guard, sec.by}, c.insecure, log)()
	}
	service := flight.New(guard, flight.Options{Access: sec.by, Log: log, Version: p.Version, ClientTimeout: c.timeout})
	page, err := c.page(l.web, guard, sec, p.Version, log)
	if err != nil {
		return err
	}
	if c.agent.url != "" {
		agents, err := c.agent.agents(guard, keeps, c.state, p.Version, log)
		if err != nil {
			return err
		}
		for _, a := range agents {
			defer join("the host has left the fleet", a.Run, log)()
		}
	}
	if keeps != nil {
		defer join("standing queries are no longer kept", func(ctx context.Context) error { return p.Keep(ctx, *keeps) }, log)()
	}
	failed := make(chan error, len(listeners)+1)
	var addrs []net.Addr
	served = true
	for i, l := range listeners {
		addrs = append(addrs, l.Addr())
		log.Info("listening", "network", l.Addr().Network(), "address", l.Addr().String())
		go func() { failed <- service.Serve(l, append(connectionLimits(), how[i])...) }()
	}
	if page != nil {
		addrs = append(addrs, l.web.Addr())
		log.Info("web page", "address", l.web.Addr().String())
		go func() { failed <- page.serve() }()
	}
	if watched != nil {
		addrs = append(addrs, watched.Addr())
		log.Info("monitored", "address", watched.Addr().String())
	}
	notify("READY=1")
	if work != nil {
		work.ready()
	}
	if p.Ready != nil {
		p.Ready(addrs)
	}
	select {
	case <-ctx.Done():
		log.Info("ending")
		notify("STOPPING=1")
	case err = <-failed:
	}
	grace, cancel := context.WithTimeout(context.Background(), graceAtStop)
	defer cancel()
	service.Stop(grace)
	if page != nil {
		page.Stop(grace)
	}
	return err
}
