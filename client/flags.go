package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"endoscope/client/render"
	"endoscope/planner/plan"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// flags are the values of the flags of a command.
type flags struct {
	demo    bool // the target is the program that is part of endoscope
	pid     int
	process string
	exe     string
	command []string                    // after --
	connect []string                    // several engines are queried as one
	fleet   string                      // the address of a bus
	creds   string                      // for it
	dial    func() (wire.Engine, error) // of a command with an engine of its own
	// reconnect: resume results after the connection was lost.
	reconnect bool
	as        credentials   // for connect
	format    render.Format // "": chosen by the output
	output    string        // file for rows; "": standard output
	scripts   []script      // in the order given; none: standard input
}

// script is a -c or a -f.
type script struct {
	file bool
	text string // statements, or a file name ("-": standard input)
}

// usageError is a mistake in the command line.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }

func usagef(hint, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), hint}
}

// The groups of flags, in the order of the help text. A command has some of them.
const (
	targetFlags     = "Target (one of these; a query can also have WHERE pid = ...)"
	statementFlags  = "Statements (run in the order given, up to the first that fails)"
	outputFlags     = "Output"
	connectionFlags = "Connection"
	otherFlags      = "Other flags"
)

var flagGroups = []string{targetFlags, statementFlags, outputFlags, connectionFlags, otherFlags}

// flag is a flag with a value, or, if value is "", without one.
type flag struct {
	group       string
	short, long string
	value       string // the placeholder in the help text
	about       string
	set         func(f *flags, v string) error
	complete    string // kind of the session's names that complete it; "": none
}

var allFlags = []flag{
	{targetFlags, "p", "pid", "PID", "this process", func(f *flags, v string) (err error) {
		if f.pid != 0 {
			return twice("-p")
		}
		f.pid, err = strconv.Atoi(v)
		if err != nil || f.pid <= 0 {
			return usagef("--process takes a name", "-p needs a process id, not %q", v)
		}
		return nil
	}, "pid"},
	{targetFlags, "", "process", "NAME", "every process of this name, including those that start later", func(f *flags, v string) error {
		if f.process != "" {
			return twice("--process")
		}
		f.process = v
		return notEmpty("--process", v)
	}, "process"},
	{targetFlags, "", "exe", "PATH", "every process of this executable", func(f *flags, v string) error {
		if f.exe != "" {
			return twice("--exe")
		}
		f.exe = v
		return notEmpty("--exe", v)
	}, "file"},
	{statementFlags, "c", "command", "SQL", "statements, separated by semicolons; without any, nothing is done, as in psql: exit code 0", func(f *flags, v string) error {
		f.scripts = append(f.scripts, script{text: v})
		return nil
	}, ""},
	{statementFlags, "f", "file", "FILE", "statements of a file; - is standard input", func(f *flags, v string) error {
		f.scripts = append(f.scripts, script{file: true, text: v})
		return notEmpty("-f", v)
	}, "file"},
	{outputFlags, "", "format", "FORMAT", "table, csv, json, jsonl, markdown, raw, arrow, parquet, pprof, folded, speedscope, perfetto, svg or html; a table on a terminal, else csv (endoscope help formats)", func(f *flags, v string) (err error) {
		if f.format, err = render.ParseFormat(v); err != nil {
			return usagef(render.Names(), "%v", err)
		}
		return nil
	}, "format"},
	{outputFlags, "o", "output", "FILE", "write rows to FILE, in the format of its ending: .csv, .json, .jsonl, .md, .arrow, .parquet, .pb.gz, .folded, .svg, .html, .pftrace, .speedscope.json", func(f *flags, v string) error {
		if f.output != "" {
			return usagef("\\o FILE changes the file between statements", "-o can be given once")
		}
		f.output = v
		return notEmpty("-o", v)
	}, "file"},
	{connectionFlags, "", "connect", "ADDR", "use the engine at ADDR (host:port, or the path of a socket) instead of one in this process; several are queried as one", func(f *flags, v string) error {
		if slices.Contains(f.connect, v) {
			return usagef("each --connect is another engine; the rows of this one would be counted twice", "--connect %s is given twice", v)
		}
		f.connect = append(f.connect, v)
		if v == "" {
			return notEmpty("--connect", v)
		}
		return checkAddress(v)
	}, ""},
	{connectionFlags, "", "fleet", "URL", "query all hosts of the fleet on this NATS server (nats://HOST:4222; several, separated by commas) as one", func(f *flags, v string) error { f.fleet = v; return checkBus(v) }, ""},
	{connectionFlags, "", "creds", "FILE", "the file of your credentials for --fleet (created by endoscoped enroll)", func(f *flags, v string) error { f.creds = v; return notEmpty("--creds", v) }, "file"},
	{connectionFlags, "", "ca", "FILE", "the certificate of the CA of an engine on another machine (created by endoscoped init); without these flags: ca.pem, client.pem, client.key and token in ~/.config/endoscope", func(f *flags, v string) error { f.as.ca = v; return notEmpty("--ca", v) }, "file"},
	{connectionFlags, "", "cert", "FILE", "your certificate, with its key in FILE.key", func(f *flags, v string) error { f.as.cert = v; return notEmpty("--cert", v) }, "file"},
	{connectionFlags, "", "key", "FILE", "the key of your certificate", func(f *flags, v string) error { f.as.key = v; return notEmpty("--key", v) }, "file"},
	{connectionFlags, "", "token-file", "FILE", "your token, which may also be in $ENDOSCOPE_TOKEN", func(f *flags, v string) error { f.as.token = v; return notEmpty("--token-file", v) }, "file"},
	{connectionFlags, "", "reconnect", "", "when the connection is lost, connect again and continue; gaps are reported", func(f *flags, _ string) error { f.reconnect = true; return nil }, ""},
	{connectionFlags, "", "insecure", "", "do not encrypt: others can read and change the traffic", func(f *flags, _ string) error { f.as.insecure = true; return nil }, ""},
}

// checkBus refuses what is not the URL of a bus.
func checkBus(url string) error {
	if url == "" {
		return notEmpty("--fleet", url)
	}
	if err := bus.CheckURL(url); err != nil {
		return usagef("--fleet "+bus.URLForm, "--fleet: %v", err)
	}
	return nil
}

// flagValue sets a flag. It implements pflag.Value.
type flagValue struct {
	flag
	to *flags
}

func (v flagValue) Set(s string) error { return v.set(v.to, s) }
func (v flagValue) String() string     { return "" }

// Type returns the placeholder of the value. pflag knows flags without one as "bool".
func (v flagValue) Type() string {
	if v.value == "" {
		return "bool"
	}
	return v.value
}

// groupOf is the key of the annotation of a flag that names its group.
const groupOf = "endoscope_group"

// define adds the flags of some groups to a command, and returns where their values are
// stored.
func (p *Program) define(c *cobra.Command, groups ...string) *flags {
	f := &flags{}
	for _, x := range allFlags {
		if !slices.Contains(groups, x.group) {
			continue
		}
		added := c.Flags().VarPF(flagValue{x, f}, x.long, x.short, x.about)
		added.Annotations = map[string][]string{groupOf: {x.group}}
		if x.value == "" {
			added.NoOptDefVal = "true"
		}
		p.completeFlag(c, x)
	}
	return f
}

// oneTarget is the hint for several targets.
const oneTarget = "a session has one target; a query can choose others: WHERE pid = 42"

// twice rejects a second target, which would silently replace the first.
func twice(name string) error { return usagef(oneTarget, "%s can be given once", name) }

func notEmpty(name, v string) error {
	if v == "" {
		return usagef("", "%s needs a value", name)
	}
	return nil
}

const helpHint = "endoscope --help lists the flags"

// flagError turns an error of the library into one in the form of the others.
func flagError(c *cobra.Command, err error) error {
	if usage, ok := errors.AsType[*usageError](err); ok {
		return usage
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		name := "--" + missing.GetSpecifiedName()
		if missing.GetSpecifiedShortnames() != "" {
			name = "-" + missing.GetSpecifiedName()
		}
		return usagef(helpHint, "%s needs a value (%s)", name, missing.GetFlag().Value.Type())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usagef(helpHint, "%v", err)
	}
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return usagef(helpHint, "there is no flag -%s", unknown.GetSpecifiedShortnames())
	}
	if name == "token" {
		return usagef("--token-file FILE, or $ENDOSCOPE_TOKEN", "there is no flag --token: other users can see the command line")
	}
	hint := helpHint
	if c.HasParent() {
		hint = c.CommandPath() + " --help lists the flags"
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := plan.Nearest(name, names, 1); near != nil {
		hint = fmt.Sprintf("did you mean --%s?", near[0])
	}
	return usagef(hint, "there is no flag --%s", name)
}

// arguments accepts CMD ARGS... after --, and no other argument.
func (f *flags) arguments(c *cobra.Command, args []string) error {
	at := c.ArgsLenAtDash()
	if at == 0 {
		if len(args) == 0 {
			return usagef("endoscope -- ./server --port 80", "-- needs a program")
		}
		f.command = args
		return nil
	}
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("to start a program: endoscope -- %s; to run a statement: -c", args[0])
	if near := plan.Nearest(args[0], commandNames(c.Root()), 1); near != nil {
		hint = fmt.Sprintf("did you mean endoscope %s?", near[0])
	}
	return usagef(hint, "unexpected argument %q", args[0])
}

// check rejects flags that exclude each other.
func (f *flags) check() error {
	if f.output != "" && f.format == "" {
		format, known := render.FormatOf(f.output)
		if !known {
			return usagef("known are "+strings.Join(render.Endings(), ", ")+"; --format chooses for others", "the ending of %s does not say its format", f.output)
		}
		f.format = format
	}
	var targets []string
	if f.pid != 0 {
		targets = append(targets, "-p")
	}
	if f.process != "" {
		targets = append(targets, "--process")
	}
	if f.exe != "" {
		targets = append(targets, "--exe")
	}
	if f.command != nil {
		targets = append(targets, "-- CMD")
	}
	switch {
	case f.fleet != "" && f.connect != nil:
		return usagef("a fleet is reached over its bus", "--fleet and --connect exclude each other")
	case f.fleet == "" && f.creds != "":
		return usagef("--fleet nats://HOST:4222", "--creds needs --fleet")
	case f.fleet != "" && f.pid != 0:
		return usagef("--process NAME or --exe PATH", "-p %d means another program on each host of a fleet", f.pid)
	case f.fleet != "" && f.command != nil:
		return usagef("", "a program cannot be started on all hosts of a fleet")
	case f.demo && f.fleet != "":
		return usagef("endoscope fleet demo", "demo and --fleet exclude each other")
	case f.demo && len(targets) > 0:
		return usagef("endoscope demo starts a program of its own", "demo and %s exclude each other", targets[0])
	case f.connect == nil && (f.as != (credentials{}) || f.reconnect):
		return usagef("--connect HOST:PORT", "certificates, tokens and --reconnect need --connect")
	case len(f.connect) > 1 && f.reconnect:
		return usagef("results of several engines continue without a lost host, and mark it", "--reconnect supports only one engine")
	case f.demo && f.connect != nil:
		return usagef("endoscope demo runs on this machine", "demo and --connect exclude each other")
	case len(targets) > 1:
		return usagef(oneTarget, "%s and %s exclude each other", targets[0], targets[1])
	}
	return nil
}
