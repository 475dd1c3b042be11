package grant

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"endoscope/planner/plan"
)

// Grant is what the sessions of one user may do. It does not change once it is in
// use. nil: everything.
type Grant struct {
	User  string // for lists and the audit log
	Admin bool   // may also see and end other users' queries, and drop their definitions
	Trace bool   // may attach to processes, beyond reading /proc
	// Viewer restricts which processes the user may observe; nil: all.
	Viewer   *plan.Viewer
	Commands bool // may start programs as targets
	Models   bool // may create and drop models
	// Read and Write are the directories that file() and INSERT INTO file() may use,
	// including subdirectories.
	Read, Write []string
	// Anywhere: any file may be read and written, and any address may receive
	// webhooks and exports.
	Anywhere bool
	// Webhooks are the URL prefixes to which WEBHOOK may send, and Exports those to which
	// CREATE EXPORT may.
	Webhooks, Exports []Prefix
	// Scrape: may read the exports to Prometheus of all users.
	Scrape bool

	Account *Account // usage; nil: not counted
	Audit   Log      // nil: no audit log
}

// Refusal is the error of an action that the grant does not permit.
type Refusal struct{ Msg, Hint string }

func (r *Refusal) Error() string { return r.Msg }

func refuse(hint, format string, args ...any) *Refusal {
	return &Refusal{Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// Name returns the user's name; "" for the engine's own user.
func (g *Grant) Name() string {
	if g == nil {
		return ""
	}
	return g.User
}

// Same reports whether two grants are equal except for account and log.
func (g *Grant) Same(h *Grant) bool {
	if g == nil || h == nil {
		return g == h
	}
	a, b := *g, *h
	a.Account, a.Audit, b.Account, b.Audit = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// Rules reports whether the user may see and change what other users own.
func (g *Grant) Rules() bool { return g == nil || g.Admin }

// Owns reports whether the user may see and change what owner defined or runs.
func (g *Grant) Owns(owner string) bool { return g.Rules() || g.User == owner }

// Sees returns the restriction on observable processes; nil: all.
func (g *Grant) Sees() *plan.Viewer {
	switch {
	case g == nil:
		return nil
	case g.Viewer == nil && !g.Admin:
		return &plan.Viewer{Name: g.User, Any: true, Shared: true}
	}
	return g.Viewer
}

// Scrapes reports whether the user may read what owner exports to Prometheus.
func (g *Grant) Scrapes(owner string) bool { return g.Owns(owner) || g.Scrape }

// Uses returns the account on which usage is counted; nil: none.
func (g *Grant) Uses() *Account {
	if g == nil {
		return nil
	}
	return g.Account
}

// MayTrace refuses users who may only read /proc.
func (g *Grant) MayTrace(stream string) error {
	if g == nil || g.Trace {
		return nil
	}
	return refuse("streams of /proc (cpu_usage, process_usage and the like) need no role", "%s attaches to processes, which needs the role trace", stream)
}

// MayStart refuses commands as targets.
func (g *Grant) MayStart() error {
	if g == nil || g.Commands {
		return nil
	}
	return refuse("start the program yourself and observe it with -p PID", "starting a program as the target needs the grant \"commands\"")
}

// MayModel refuses CREATE MODEL and DROP MODEL.
func (g *Grant) MayModel() error {
	if g == nil || g.Models {
		return nil
	}
	return refuse("", "creating and dropping models needs the grant \"models\"")
}

// MayFetch refuses to let the engine fetch debug files from servers.
func (g *Grant) MayFetch() error {
	if g == nil || g.Admin {
		return nil
	}
	return refuse("debug_directory is searched without it", "only an administrator may let the engine fetch debug files from servers")
}

// MayRead returns the path at which a file may be read.
func (g *Grant) MayRead(file string) (string, error) {
	if g == nil || g.Anywhere {
		return file, nil
	}
	return g.file(file, g.Read, "read", "reading the server's files")
}

// MayWrite returns the path at which a file may be written.
func (g *Grant) MayWrite(file string) (string, error) {
	if g == nil || g.Anywhere {
		return file, nil
	}
	return g.file(file, g.Write, "write", "writing files of the server")
}

// file resolves a path within one of dirs. Symbolic links are resolved first. A user
// with write access to such a directory on the server can change links later, so
// these directories should be writable by the server only.
func (g *Grant) file(file string, dirs []string, verb, what string) (string, error) {
	if len(dirs) == 0 {
		return "", refuse("", "%s needs the grant %q", what, verb)
	}
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		at := file
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		at = filepath.Clean(at)
		if p := resolve(at); p != "" && below(p, real) {
			return p, nil
		}
	}
	return "", refuse("your directories: "+strings.Join(dirs, ", "), "'%s' is not in a directory that you may %s", file, verb)
}

// resolve returns a path without symbolic links; "" if its directory does not exist.
// The file itself need not exist.
func resolve(file string) string {
	if p, err := filepath.EvalSymlinks(file); err == nil {
		return p
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return ""
	}
	p := filepath.Join(dir, filepath.Base(file))
	if isLink(p) { // a dangling link: writing would create its target
		return ""
	}
	return p
}

func isLink(p string) bool {
	info, err := os.Lstat(p)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

func below(p, dir string) bool {
	return strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
