package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
)

// mistake is an error in the command line, printed in the format of the endoscope
// command.
type mistake struct{ msg, hint string }

func (m *mistake) Error() string { return m.msg }

func mistakef(hint, format string, args ...any) error {
	return &mistake{fmt.Sprintf(format, args...), hint}
}

// cannot wraps an error that prevents the daemon from starting with the flag that
// caused it, and omits from the system's message what the flag's value already says.
func cannot(flag, value string, err error) error {
	for {
		switch e := err.(type) {
		case *net.OpError:
			err = e.Err
		case *os.SyscallError:
			err = e.Err
		case *fs.PathError:
			err = e.Err
		case *net.AddrError:
			err = errors.New(e.Err)
		case *net.DNSError:
			err = errors.New(e.Err)
		default:
			return fmt.Errorf("%s %s: %w", flag, value, err)
		}
	}
}

// newFlags returns the flag set of the program or of one of its commands.
func newFlags(name string) *flag.FlagSet {
	return flag.NewFlagSet(strings.TrimSpace("endoscoped "+name), flag.ContinueOnError)
}

// parseFlags parses flags before, between and after n other arguments, which it
// returns. Errors are *mistake, or flag.ErrHelp; FlagSet.Parse would print errors
// itself, in another format.
func parseFlags(f *flag.FlagSet, args []string, n int) (rest []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			rest, args = append(rest, args...), nil
		case arg == "-h" || arg == "-help" || arg == "--help":
			return nil, flag.ErrHelp
		case len(arg) > 1 && arg[0] == '-':
			if args, err = parseFlag(f, arg, args); err != nil {
				return nil, err
			}
		default:
			rest = append(rest, arg)
		}
	}
	if len(rest) > n {
		return nil, mistakef(f.Name()+" --help lists the arguments", "unexpected argument %q", rest[n])
	}
	return rest, nil
}

// parseFlag parses one flag, whose value may be the next argument, and returns the
// remaining arguments.
func parseFlag(f *flag.FlagSet, arg string, args []string) ([]string, error) {
	name, value, attached := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	fl := f.Lookup(name)
	if fl == nil {
		return nil, mistakef(f.Name()+" --help lists the flags", "there is no flag --%s", name)
	}
	kind, _ := flag.UnquoteUsage(fl)
	if kind == "" { // a boolean flag
		if attached {
			return nil, mistakef("", "--%s takes no value", name)
		}
		return args, fl.Value.Set("true")
	}
	if !attached && len(args) > 0 {
		value, args = args[0], args[1:]
	}
	if value == "" {
		return nil, mistakef(f.Name()+" --help lists the flags", "--%s needs a value (%s)", name, strings.ToUpper(kind))
	}
	if fl.Value.Set(value) != nil {
		return nil, mistakef(fmt.Sprintf("--%s %s", name, fl.DefValue), "--%s takes a %s, not %q", name, kind, value)
	}
	return args, nil
}

// printFlags prints the list of flags.
func printFlags(w io.Writer, f *flag.FlagSet) {
	f.VisitAll(func(fl *flag.Flag) {
		kind, text := flag.UnquoteUsage(fl)
		if fl.DefValue != "" && kind != "" {
			text += fmt.Sprintf(" (default %s)", fl.DefValue)
		}
		fmt.Fprintf(w, "  --%s\n        %s\n", strings.TrimSpace(fl.Name+" "+strings.ToUpper(kind)), text)
	})
}
