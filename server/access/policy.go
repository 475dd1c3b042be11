package access

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/plan"
	"endoscope/server/grant"
)

// Example is a file of users, with all that can be in it.
const Example = `# Who may do what. It is read again when it changes.
#
# A user is known by the name in a client certificate, by a token
# (endoscoped token add NAME), or as a user of this machine: over the unix socket
# and the loopback. Root is an admin, whatever stands here.

# What users of this machine may do that have no entry: none, read or trace
# (their own processes).
locals trace

#user alice
#    role trace                  # read: streams of /proc; trace: attach to processes; admin: and rule over others
#    unix alice                  # observes what this user of the machine could ptrace,
#    processes-of postgres www   # the processes of these users,
#    cgroups system.slice/redis.service   # those of these cgroups, with what is below them,
#    processes all               # or all
#    grants shared               # shared: probes of programs and libraries for all that execute them, also later
#    grants commands models      # start programs as targets (as the daemon's user); CREATE and DROP MODEL
#    read /srv/endoscope/in      # directories for file()
#    write /srv/endoscope/out    # and for INSERT INTO file(); only the server should be able to write there
#    webhooks https://hooks.example.com/endoscope
#    limits sessions=64 queries=64 probes=10000 events=1000000 memory=2GiB
`

// defaultLimits are those of users for whom the file says nothing else.
var defaultLimits = grant.Limits{Sessions: 64, Queries: 64, Probes: 10_000, Events: 1_000_000, Memory: 2 << 30}

// role is what a user may do in general.
type role uint8

const (
	noRole role = iota
	readRole
	traceRole
	adminRole
)

var roles = map[string]role{"none": noRole, "read": readRole, "trace": traceRole, "admin": adminRole}

// entry is one user of the file.
type entry struct {
	name     string
	role     role
	unix     string
	uid      uint32
	viewer   plan.Viewer // Name, Local, UID and GIDs are not set
	commands bool
	models   bool
	read     []string
	write    []string
	webhooks []grant.Prefix
	limits   grant.Limits
}

// Policy is who may do what.
type Policy struct {
	locals role
	users  map[string]*entry
}

// noPolicy is that of a server without a file: users of the machine may observe
// their own processes, and nobody else is known.
func noPolicy() *Policy { return &Policy{locals: traceRole, users: map[string]*entry{}} }

// accounts of the machine; tests have others.
type directory interface {
	byName(name string) (uid uint32, err error)
	byID(uid uint32) (name string, gids []uint32, err error)
}

type machine struct{}

func (machine) byName(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("this machine has no user %s", name)
	}
	return number(u.Uid)
}

func (machine) byID(uid uint32) (name string, gids []uint32, err error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return "", nil, fmt.Errorf("this machine has no user of the number %d", uid)
	}
	ids, err := u.GroupIds()
	if err != nil {
		ids = []string{u.Gid}
	}
	for _, id := range ids {
		gid, err := number(id)
		if err != nil {
			return "", nil, err
		}
		gids = append(gids, gid)
	}
	return u.Username, gids, nil
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), err
}

// ReadPolicy reads a file of users. Mistakes are told with file and line.
func ReadPolicy(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parsePolicy(f, path, machine{})
}

func parsePolicy(r io.Reader, path string, known directory) (*Policy, error) {
	p := noPolicy()
	var e *entry
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		var err error
		switch key, values := words[0], words[1:]; {
		case len(values) == 0:
			err = fmt.Errorf("%s says nothing", key)
		case key == "user":
			e = &entry{name: values[0], limits: defaultLimits}
			if err = p.add(e, values); err != nil {
				e = nil
			}
		case key == "locals" && e == nil:
			var ok bool
			if p.locals, ok = roles[values[0]]; !ok || p.locals == adminRole || len(values) > 1 {
				err = fmt.Errorf("locals is none, read or trace")
			}
		case e == nil:
			err = fmt.Errorf("%s belongs to a user, and none is named before", key)
		default:
			err = e.set(key, values, known)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, p.check(path)
}

func (p *Policy) add(e *entry, values []string) error {
	if len(values) > 1 {
		return fmt.Errorf("a user is one name, and what they may do is in lines of its own")
	}
	if err := checkName(e.name); err != nil {
		return err
	}
	if p.users[e.name] != nil {
		return fmt.Errorf("%s is there already", e.name)
	}
	p.users[e.name] = e
	return nil
}

// check refuses what would be two users at once.
func (p *Policy) check(path string) error {
	byUID := map[uint32]string{}
	for _, name := range p.names() {
		e := p.users[name]
		if e.role == noRole {
			return fmt.Errorf("%s: user %s has no role: read, trace or admin", path, name)
		}
		if e.unix == "" {
			continue
		}
		if other := byUID[e.uid]; other != "" {
			return fmt.Errorf("%s: users %s and %s are the same user of this machine", path, other, name)
		}
		byUID[e.uid] = name
	}
	return nil
}

// Has reports whether a user has an entry.
func (p *Policy) Has(name string) bool { return p.users[name] != nil }

func (p *Policy) names() []string {
	var names []string
	for name := range p.users {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// set takes one line of a user.
func (e *entry) set(key string, values []string, known directory) (err error) {
	one := func() error {
		if len(values) > 1 {
			return fmt.Errorf("%s takes one value", key)
		}
		return nil
	}
	switch key {
	case "role":
		var ok bool
		if e.role, ok = roles[values[0]]; !ok || e.role == noRole {
			return fmt.Errorf("%q is no role: read, trace or admin", values[0])
		}
		return one()
	case "unix":
		e.unix = values[0]
		if e.uid, err = known.byName(e.unix); err != nil {
			return err
		}
		return one()
	case "processes":
		if values[0] != "all" {
			return fmt.Errorf("processes is \"all\"; processes-of and cgroups choose some")
		}
		e.viewer.Any = true
		return one()
	case "processes-of":
		for _, name := range values {
			uid, err := known.byName(name)
			if err != nil {
				return err
			}
			e.viewer.Users = append(e.viewer.Users, uid)
		}
	case "cgroups":
		for _, c := range values {
			if strings.Trim(c, "/") == "" {
				return fmt.Errorf("the root of all cgroups is \"processes all\"")
			}
		}
		e.viewer.Cgroups = append(e.viewer.Cgroups, values...)
	case "grants":
		for _, g := range values {
			switch g {
			case "shared":
				e.viewer.Shared = true
			case "commands":
				e.commands = true
			case "models":
				e.models = true
			default:
				return fmt.Errorf("%q is no grant: shared, commands or models", g)
			}
		}
	case "read", "write":
		for _, dir := range values {
			if !filepath.IsAbs(dir) {
				return fmt.Errorf("%s is no absolute path", dir)
			}
		}
		if key == "read" {
			e.read = append(e.read, values...)
		} else {
			e.write = append(e.write, values...)
		}
	case "webhooks":
		for _, v := range values {
			prefix, err := grant.ParsePrefix(v)
			if err != nil {
				return err
			}
			e.webhooks = append(e.webhooks, prefix)
		}
	case "limits":
		return e.setLimits(values)
	default:
		return fmt.Errorf("what is %q? A user has role, unix, processes, processes-of, cgroups, grants, read, write, webhooks, limits", key)
	}
	return nil
}

func (e *entry) setLimits(values []string) error {
	for _, v := range values {
		key, text, ok := strings.Cut(v, "=")
		n, err := parseSize(text)
		if !ok || err != nil {
			return fmt.Errorf("%q is no limit, such as queries=8 or memory=1GiB", v)
		}
		switch key {
		case "sessions":
			e.limits.Sessions = int(n)
		case "queries":
			e.limits.Queries = int(n)
		case "probes":
			e.limits.Probes = int(n)
		case "events":
			e.limits.Events = n
		case "memory":
			e.limits.Memory = n
		default:
			return fmt.Errorf("%q is no limit: sessions, queries, probes, events, memory", key)
		}
	}
	return nil
}

// parseSize reads a number, 0 or more, with or without a unit.
func parseSize(text string) (int64, error) {
	shift := 0
	for unit, bits := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			text, shift = rest, bits
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return n << shift, nil
}
