package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"endoscope/server/access"
)

// commands are the subcommands; without one the program serves.
var commands = map[string]func(args []string, stdout, stderr io.Writer) error{
	"init":   initialise,
	"cert":   newCertificate,
	"token":  tokens,
	"enroll": enroll,
	"revoke": revoke,
	"bus":    busUsers,
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return "" }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// options returns the flags of a command.
func options(name string) (f *flag.FlagSet, dir *string) {
	f = newFlags(name)
	return f, f.String("config", defaultConfig, "the `directory` of certificates, users and tokens")
}

// parseCommand is parseFlags for a command that requires all arguments in names.
// usage is the first line of its help, which goes to w.
func parseCommand(f *flag.FlagSet, args []string, w io.Writer, usage string, names ...string) ([]string, error) {
	rest, err := parseFlags(f, args, len(names))
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(w, "usage: endoscoped %s\n\n", usage)
		printFlags(w, f)
	case err == nil && len(rest) < len(names):
		err = mistakef("endoscoped "+usage, "%s needs a %s", f.Name(), names[len(rest)])
	}
	return rest, err
}

// initialise creates certificates and a file of users.
func initialise(args []string, stdout, stderr io.Writer) error {
	f, dir := options("init")
	var hosts, clients list
	f.Var(&hosts, "host", "a `name` or address by which clients reach this server")
	f.Var(&clients, "client", "also make a certificate for this `user`")
	if _, err := parseCommand(f, args, stdout, "init --host NAME [--host NAME ...] [--client USER ...]"); err != nil {
		return err
	}
	files, err := access.Init(*dir, hosts)
	if err != nil {
		return err
	}
	users := filepath.Join(*dir, "users")
	if _, err := os.Lstat(users); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(users, []byte(access.Example), 0o644); err != nil {
			return err
		}
		files = append(files, users)
	}
	for _, name := range clients {
		made, _, err := access.NewClient(*dir, name, access.ClientOptions{})
		if err != nil {
			return err
		}
		files = append(files, made...)
	}
	for _, name := range files {
		fmt.Fprintln(stdout, name)
	}
	fmt.Fprintf(stdout, "\nClients need ca.pem, and a certificate with its key (endoscoped cert USER) or a token\n(endoscoped token add USER). %s lists the permissions of each USER.\n", users)
	for _, name := range clients {
		noticeUnknown(stderr, *dir, name)
	}
	return nil
}

// noticeUnknown prints a notice if the user of a new certificate or token has no
// entry. The caller itself would only be told that it has no access.
func noticeUnknown(stderr io.Writer, dir, name string) {
	users := filepath.Join(dir, "users")
	if p, err := access.ReadPolicy(users); err == nil && !p.Has(name) || errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(stderr, "notice: %s has no access until %s has an entry for that user\n", name, users)
	}
}

// newCertificate issues a client certificate.
func newCertificate(args []string, stdout, stderr io.Writer) error {
	f, dir := options("cert")
	expires := f.String("expires", "", "lifetime of the certificate, `long`: 12h, 90d (default: two years)")
	replace := f.Bool("replace", false, "replace the user's certificate and key in the directory; the old certificate stays valid until it expires or is revoked")
	rest, err := parseCommand(f, args, stdout, "cert USER [--expires 12h] [--replace]", "USER")
	if err != nil {
		return err
	}
	life, err := lifetime(*expires)
	if err != nil {
		return err
	}
	files, made, err := access.NewClient(*dir, rest[0], access.ClientOptions{Life: life, Replace: *replace})
	for _, name := range files {
		fmt.Fprintln(stdout, name)
	}
	if err == nil {
		fmt.Fprintf(stderr, "certificate %x of %s, until %s\n", made.SerialNumber, rest[0], made.NotAfter.UTC().Format(time.RFC3339))
		noticeUnknown(stderr, *dir, rest[0])
	}
	return err
}

// tokens adds, lists and revokes tokens.
func tokens(args []string, stdout, stderr io.Writer) error {
	const usage = "token add USER [--expires 90d] | list | revoke ID"
	f, dir := options("token")
	expires := f.String("expires", "", "lifetime of the token, `long`: 12h, 90d; without it the token does not expire")
	rest, err := parseFlags(f, args, 2)
	var what string
	switch {
	case err != nil:
		_, err = parseCommand(f, args, stdout, usage)
		return err
	case len(rest) == 0:
		return mistakef("endoscoped "+usage, "endoscoped token needs add, list or revoke")
	default:
		what = rest[0]
	}
	rest = rest[1:]
	named := map[string]string{"add": "USER", "revoke": "ID", "list": ""}
	switch name, ok := named[what]; {
	case !ok:
		return mistakef("endoscoped "+usage, "unexpected argument %q", what)
	case len(rest) == 0 && name != "":
		return mistakef("endoscoped "+usage, "endoscoped token %s needs a %s", what, name)
	case len(rest) > 0 && name == "":
		return mistakef("endoscoped "+usage, "unexpected argument %q", rest[0])
	}
	t, err := access.OpenTokens(filepath.Join(*dir, "tokens"))
	if err != nil {
		return err
	}
	switch what {
	case "add":
		life, err := lifetime(*expires)
		if err != nil {
			return err
		}
		text, k, err := t.Add(rest[0], life)
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "token %s of %s; it is not stored anywhere:\n", k.ID(), k.User)
		fmt.Fprintln(stdout, text)
		noticeUnknown(stderr, *dir, rest[0])
	case "revoke":
		k, err := t.Revoke(rest[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "token %s of %s is revoked\n", k.ID(), k.User)
	case "list":
		all, err := t.List()
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "token\tuser\tmade\texpires")
		for _, k := range all {
			until := "never"
			if !k.Expires.IsZero() {
				until = k.Expires.Format(time.RFC3339)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.ID(), k.User, k.Created.Format(time.RFC3339), until)
		}
		return w.Flush()
	}
	return nil
}

// lifetime parses 12h or 90d; "" is 0.
func lifetime(text string) (time.Duration, error) { return lifetimeFlag("--expires", text) }

func lifetimeFlag(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	var days int
	if n, err := fmt.Sscanf(text, "%dd", &days); err == nil && n == 1 && days > 0 && days < 100_000 && fmt.Sprintf("%dd", days) == text {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, mistakef("", "%s takes 12h or 90d, not %q", name, text)
	}
	return d, nil
}
