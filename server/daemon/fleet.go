package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"endoscope/server/access"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// enroll creates the credentials of a member of the fleet.
func enroll(args []string, stdout, stderr io.Writer) error {
	const usage = "enroll NAME [--role host|author|reducer] [--label KEY=VALUE ...] [--expires 90d] [--replace] [--fleet URL --creds FILE]"
	f, dir := options("enroll")
	role := f.String("role", "host", "what the member may do: a host executes queries, an author asks them, a reducer merges results; `host`, author or reducer")
	expires := f.String("expires", "", "lifetime of the certificate, `long`: 12h, 90d (default: two years)")
	replace := f.Bool("replace", false, "replace the member's credentials in the directory; the old certificate stays valid until it expires or is revoked")
	to := publishing(f)
	var labels list
	f.Var(&labels, "label", "a label of a host, `key=value`: host_label('key') in queries")
	rest, err := parseCommand(f, args, stdout, usage, "NAME")
	if err != nil {
		return err
	}
	if err := to.check(usage); err != nil {
		return err
	}
	p := fleettrust.Profile{Name: rest[0], Labels: map[string]string{}}
	if p.Role, err = fleettrust.ParseRole(*role); err != nil {
		return mistakef("--role host", "--role: %v", err)
	}
	for _, l := range labels {
		key, value, ok := strings.Cut(l, "=")
		if _, twice := p.Labels[key]; !ok || twice {
			return mistakef("--label rack=r1", "--label takes each key once, as KEY=VALUE, not %q", l)
		}
		p.Labels[key] = value
	}
	life, err := lifetime(*expires)
	if err != nil {
		return err
	}
	fleet, err := access.OpenFleet(*dir)
	if err != nil {
		return err
	}
	file, made, err := fleet.Enroll(p, access.ClientOptions{Life: life, Replace: *replace})
	if file != "" {
		fmt.Fprintln(stdout, file)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "certificate %s of %s %s, until %s\n", made.Serial, p.Role, p.Name, made.NotAfter.UTC().Format(time.RFC3339))
	if p.Role == fleettrust.Author {
		noticeUnknown(stderr, *dir, p.Name)
	}
	return to.publish(fleet)
}

// revoke adds certificates to the list of revoked ones.
func revoke(args []string, stdout, stderr io.Writer) error {
	f, dir := options("revoke")
	valid := f.String("valid", "", "members of the fleet refuse everything after this `long` without a newer list: 12h, 90d (default: never)")
	to := publishing(f)
	const usage = "revoke [SERIAL ...] [--valid 30d] [--fleet URL --creds FILE]"
	serials, err := parseFlags(f, args, maxRevoked)
	if errors.Is(err, flag.ErrHelp) {
		_, err = parseCommand(f, args, stdout, usage)
	}
	if err != nil {
		return err
	}
	if err := to.check(usage); err != nil {
		return err
	}
	life, err := lifetimeFlag("--valid", *valid)
	if err != nil {
		return err
	}
	fleet, err := access.OpenFleet(*dir)
	if err != nil {
		return err
	}
	number, err := fleet.Revoke(serials, life)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "list %d of revoked certificates\n", number)
	return to.publish(fleet)
}

// publication is where the lists of the CA are stored for the members of the fleet.
type publication struct{ url, creds *string }

// publishing defines the flags of a publication.
func publishing(f *flag.FlagSet) publication {
	return publication{
		f.String("fleet", "", "store the lists of hosts and of revoked certificates at the bus of this `url`, for all members of the fleet"),
		f.String("creds", "", "the `file` of credentials of an author, for --fleet"),
	}
}

func (p publication) check(usage string) error {
	if (*p.url == "") != (*p.creds == "") {
		return mistakef("endoscoped "+usage, "--fleet and --creds need each other")
	}
	return nil
}

// publish stores the lists of the CA at the bus, if one is named.
func (p publication) publish(fleet *access.Fleet) error {
	if *p.url == "" {
		return nil
	}
	revoked, err := fleet.Revoked()
	if err != nil {
		return err
	}
	hosts, err := fleet.Inventory()
	if err != nil {
		return err
	}
	at, _, err := guard.Join(*p.url, *p.creds, "")
	if err != nil {
		return cannot("--creds", *p.creds, err)
	}
	nc, err := at.Connect("lists", false)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := guard.Prepare(ctx, nc, 0); err != nil {
		return err
	}
	return guard.Publish(ctx, nc, revoked, hosts)
}

// maxRevoked bounds the arguments of one revoke.
const maxRevoked = 10_000

// busUsers prints the users of the fleet for the configuration of a NATS server.
func busUsers(args []string, stdout, stderr io.Writer) error {
	const usage = "bus [NAME ...]"
	f, dir := options("bus")
	names, err := parseFlags(f, args, maxRevoked)
	if errors.Is(err, flag.ErrHelp) {
		_, err = parseCommand(f, args, stdout, usage)
	}
	if err != nil {
		return err
	}
	fleet, err := access.OpenFleet(*dir)
	if err != nil {
		return err
	}
	members, err := fleet.Members()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(members, func(m *fleettrust.Member) bool { return m.Name == name }) {
			return mistakef("endoscoped enroll "+name, "%s is not enrolled, or its certificate is not valid any more", name)
		}
	}
	if len(names) > 0 {
		members = slices.DeleteFunc(members, func(m *fleettrust.Member) bool { return !slices.Contains(names, m.Name) })
	}
	return guard.WriteUsers(stdout, members)
}
