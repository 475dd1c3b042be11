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
	"time"

	"endoscope/planner/plan"
	"endoscope/server/grant"
)

// Example is an example of the file of users with every key.
const Example = `# Users and their permissions. The file is reread when it changes.
#
# A user is identified by the name in a client certificate, by a token
# (endoscoped token add NAME), or as a user of this machine, over the unix socket
# and the loopback. Root is always an admin.

# Permission of users of this machine without an entry: none, read or trace
# (their own processes).
locals trace

#user alice
#    role trace                  # read: streams of /proc; trace: attach to processes; admin: also manage other users' queries
#    unix alice                  # may observe what this user of the machine could ptrace,
#    processes-of postgres www   # the processes of these users,
#    cgroups system.slice/redis.service   # the processes of these cgroups and their descendants,
#    processes all               # or all
#    grants shared               # shared: probes in programs and libraries, for every process that executes them
#    grants commands models      # start programs as targets (as the daemon's user); CREATE and DROP MODEL
#    grants scrape               # read the exports of all users at --metrics
#    read /srv/endoscope/in      # directories for file() and SET debug_directory
#    write /srv/endoscope/out    # and for INSERT INTO file(); only the server should be able to write there
#    webhooks https://hooks.example.com/endoscope
#    exports otlp://collector.example.com:4317   # CREATE EXPORT may send there
#    limits sessions=64 queries=64 probes=10000 events=1000000 memory=2GiB log=64KiB timeout=0s overhead=0%
`

// defaultLimits apply to users for whom the file states no limits.
var defaultLimits = grant.Limits{Sessions: 64, Queries: 64, Probes: 10_000, Events: 1_000_000, Log: 64 << 10, Memory: 2 << 30}

// role is the general permission level of a user.
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
	exports  []grant.Prefix
	scrape   bool
	limits   grant.Limits
}

// Policy is the content of the file of users.
type Policy struct {
	locals role
	users  map[string]*entry
}

// noPolicy is the policy of a server without a file: local users may observe their
// own processes, and no other user exists.
func noPolicy() *Policy { return &Policy{locals: traceRole, users: map[string]*entry{}} }

// directory looks up accounts of the machine; tests replace it.
type directory interface {
	byName(name string) (uid uint32, err error)
	byID(uid uint32) (name string, gids []uint32, err error)
}

type machine struct{}

// byName takes a number for an id: a container's image has other users than the machine.
func (machine) byName(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return number(u.Uid)
	}
	if uid, err := number(name); err == nil {
		return uid, nil
	}
	return 0, fmt.Errorf("this machine has no user %s", name)
}

func (machine) byID(uid uint32) (name string, gids []uint32, err error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return "", nil, fmt.Errorf("this machine has no user with id %d", uid)
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

// ReadPolicy reads a file of users. Errors name the file and line.
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
			err = fmt.Errorf("%s needs a value", key)
		case key == "user":
			e = &entry{name: values[0], limits: defaultLimits}
			if err = p.add(e, values); err != nil {
				e = nil
			}
		case key == "locals" && e == nil:
			var ok bool
			if p.locals, ok = roles[values[0]]; !ok || p.locals == adminRole || len(values) > 1 {
				err = fmt.Errorf("locals must be none, read or trace")
			}
		case e == nil:
			err = fmt.Errorf("%s must follow a user line", key)
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
		return fmt.Errorf("user takes one name; the user's settings follow on separate lines")
	}
	if err := checkName(e.name); err != nil {
		return err
	}
	if p.users[e.name] != nil {
		return fmt.Errorf("user %s is defined twice", e.name)
	}
	p.users[e.name] = e
	return nil
}

// check rejects users without a role and two users with the same user id.
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

// set applies one line of a user's entry.
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
			return fmt.Errorf("%q is not a role: read, trace or admin", values[0])
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
			return fmt.Errorf("processes takes only \"all\"; use processes-of or cgroups to select some")
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
				return fmt.Errorf("use \"processes all\" instead of the root cgroup")
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
			case "scrape":
				e.scrape = true
			default:
				return fmt.Errorf("%q is not a grant: shared, commands, models or scrape", g)
			}
		}
	case "read", "write":
		for _, dir := range values {
			if !filepath.IsAbs(dir) {
				return fmt.Errorf("%s is not an absolute path", dir)
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
	case "exports":
		for _, v := range values {
			prefix, err := grant.ParseExportPrefix(v)
			if err != nil {
				return err
			}
			e.exports = append(e.exports, prefix)
		}
	case "limits":
		return e.setLimits(values)
	default:
		return fmt.Errorf("unknown key %q; a user has role, unix, processes, processes-of, cgroups, grants, read, write, webhooks, exports, limits", key)
	}
	return nil
}

func (e *entry) setLimits(values []string) error {
	for _, v := range values {
		key, text, ok := strings.Cut(v, "=")
		var err error
		if key == "timeout" {
			if e.limits.Timeout, err = time.ParseDuration(text); err != nil || e.limits.Timeout < 0 {
				return fmt.Errorf("%q is not a timeout such as timeout=10m", v)
			}
			continue
		}
		if key == "overhead" {
			number, percent := strings.CutSuffix(text, "%")
			e.limits.Overhead, err = strconv.ParseFloat(number, 64)
			if e.limits.Overhead /= 100; !percent || err != nil || !(e.limits.Overhead >= 0 && e.limits.Overhead < 1) {
				return fmt.Errorf("%q is not an overhead such as overhead=1%%", v)
			}
			continue
		}
		var n int64
		n, err = parseSize(text)
		if !ok || err != nil {
			return fmt.Errorf("%q is not a limit such as queries=8 or memory=1GiB", v)
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
		case "log":
			e.limits.Log = n
		default:
			return fmt.Errorf("%q is not a limit: sessions, queries, probes, events, memory, log, timeout, overhead", key)
		}
	}
	return nil
}

// parseSize reads a number >= 0 with an optional unit.
func parseSize(text string) (int64, error) {
	shift := 0
	for unit, bits := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			text, shift = rest, bits
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n << shift, nil
}
