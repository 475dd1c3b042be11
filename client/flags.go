package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"endoscope/client/render"
	"endoscope/planner/plan"
)

// flags is the parsed command line.
type flags struct {
	demo    bool
	manual  bool   // help [TOPIC]
	topic   string // of the manual; "": the list of topics
	pid     int
	process string
	exe     string
	command []string // after --
	connect []string // several engines are queried as one
	// reconnect: resume results after the connection was lost.
	reconnect bool
	as        credentials   // for connect
	format    render.Format // "": chosen by the output
	output    string        // file for rows; "": standard output
	scripts   []script      // in the order given; none: standard input
	help      bool
	version   bool
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

// flag is a flag with a value.
type flag struct {
	short, long string
	value       string // the placeholder in the help text
	set         func(f *flags, v string) error
}

var valued = []flag{
	{"p", "pid", "PID", func(f *flags, v string) (err error) {
		if f.pid != 0 {
			return twice("-p")
		}
		f.pid, err = strconv.Atoi(v)
		if err != nil || f.pid <= 0 {
			return usagef("--process takes a name", "-p needs a process id, not %q", v)
		}
		return nil
	}},
	{"", "process", "NAME", func(f *flags, v string) error {
		if f.process != "" {
			return twice("--process")
		}
		f.process = v
		return notEmpty("--process", v)
	}},
	{"", "exe", "PATH", func(f *flags, v string) error {
		if f.exe != "" {
			return twice("--exe")
		}
		f.exe = v
		return notEmpty("--exe", v)
	}},
	{"c", "command", "SQL", func(f *flags, v string) error {
		f.scripts = append(f.scripts, script{text: v})
		return nil
	}},
	{"f", "file", "FILE", func(f *flags, v string) error {
		f.scripts = append(f.scripts, script{file: true, text: v})
		return notEmpty("-f", v)
	}},
	{"", "format", "FORMAT", func(f *flags, v string) (err error) {
		if f.format, err = render.ParseFormat(v); err != nil {
			return usagef("table, csv, json, jsonl, markdown or raw", "%v", err)
		}
		return nil
	}},
	{"o", "output", "FILE", func(f *flags, v string) error {
		if f.output != "" {
			return usagef("\\o FILE changes the file between statements", "-o can be given once")
		}
		f.output = v
		return notEmpty("-o", v)
	}},
	{"", "connect", "ADDR", func(f *flags, v string) error {
		if slices.Contains(f.connect, v) {
			return usagef("each --connect is another engine; the rows of this one would be counted twice", "--connect %s is given twice", v)
		}
		f.connect = append(f.connect, v)
		if v == "" {
			return notEmpty("--connect", v)
		}
		return checkAddress(v)
	}},
	{"", "ca", "FILE", func(f *flags, v string) error { f.as.ca = v; return notEmpty("--ca", v) }},
	{"", "cert", "FILE", func(f *flags, v string) error { f.as.cert = v; return notEmpty("--cert", v) }},
	{"", "key", "FILE", func(f *flags, v string) error { f.as.key = v; return notEmpty("--key", v) }},
	{"", "token-file", "FILE", func(f *flags, v string) error { f.as.token = v; return notEmpty("--token-file", v) }},
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

// commands are the words that may be the first argument.
var commands = []string{"demo", "help", "web"}

// parseFlags parses a command line (without the program's name). Its errors are
// *usageError.
func parseFlags(args []string) (*flags, error) {
	f := &flags{}
	if len(args) > 0 && args[0] == "demo" {
		f.demo, args = true, args[1:]
	}
	if len(args) > 0 && args[0] == "help" {
		f.manual, f.topic, args = true, strings.Join(args[1:], " "), nil
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			if len(args) == 0 {
				return nil, usagef("endoscope -- ./server --port 80", "-- needs a program")
			}
			f.command, args = args, nil
		case arg == "--reconnect":
			f.reconnect = true
		case arg == "--insecure":
			f.as.insecure = true
		case arg == "-h" || arg == "--help":
			f.help = true
		case arg == "--version":
			f.version = true
		case len(arg) > 1 && arg[0] == '-':
			rest, err := f.parseValued(arg, args)
			if err != nil {
				return nil, err
			}
			args = rest
		default:
			hint := fmt.Sprintf("to start a program: endoscope -- %s; to run a statement: -c", arg)
			if near := plan.Nearest(arg, commands, 1); near != nil {
				hint = fmt.Sprintf("did you mean endoscope %s?", near[0])
			}
			return nil, usagef(hint, "unexpected argument %q", arg)
		}
	}
	return f, f.check()
}

// parseValued parses a flag with a value: -cSQL, -c SQL, --file=F, --file F. It
// returns the remaining arguments.
func (f *flags) parseValued(arg string, args []string) ([]string, error) {
	for _, fl := range valued {
		var v string
		attached := false
		switch {
		case arg == "--"+fl.long, fl.short != "" && arg == "-"+fl.short:
		case strings.HasPrefix(arg, "--"+fl.long+"="):
			v, attached = arg[len(fl.long)+3:], true
		case fl.short != "" && arg[1] != '-' && arg[1:2] == fl.short:
			v, attached = arg[2:], true
		default:
			continue
		}
		if !attached {
			if len(args) == 0 {
				return nil, usagef(helpHint, "%s needs a value (%s)", arg, fl.value)
			}
			v, args = args[0], args[1:]
		}
		return args, fl.set(f, v)
	}
	name, _, _ := strings.Cut(arg, "=")
	if name == "--token" {
		return nil, usagef("--token-file FILE, or $ENDOSCOPE_TOKEN", "there is no flag --token: other users can see the command line")
	}
	hint := helpHint
	if near := plan.Nearest(strings.TrimLeft(name, "-"), longFlags(), 1); near != nil {
		hint = fmt.Sprintf("did you mean --%s?", near[0])
	}
	return nil, usagef(hint, "there is no flag %s", name)
}

// longFlags returns the names of all flags.
func longFlags() []string {
	names := []string{"reconnect", "insecure", "help", "version"}
	for _, fl := range valued {
		names = append(names, fl.long)
	}
	return names
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
