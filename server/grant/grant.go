package grant

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"endoscope/planner/plan"
)

// Grant says what the sessions of one user may do. It does not change once it
// is in use. nil: everything.
type Grant struct {
	User  string // who, for lists and the audit log
	Admin bool   // may also see and end what others run, and drop what they made
	Trace bool   // may attach to processes, beyond reading /proc
	// Viewer is whose processes they may observe; nil: all.
	Viewer   *plan.Viewer
	Commands bool // may start programs as targets
	Models   bool // may make and drop models
	// Read and Write are the directories whose files file() and INSERT INTO file()
	// may use, with what is below them.
	Read, Write []string
	// Anywhere: any file may be read and written, and any address be sent to.
	Anywhere bool
	// Webhooks are beginnings of URLs to which WEBHOOK may send.
	Webhooks []Prefix

	Account *Account // what they use; nil: not counted
	Audit   Log      // nil: nothing is logged
}

// Refusal is what a grant does not allow.
type Refusal struct{ Msg, Hint string }

func (r *Refusal) Error() string { return r.Msg }

func refuse(hint, format string, args ...any) *Refusal {
	return &Refusal{Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// Name is who has it; "" for the engine's own user.
func (g *Grant) Name() string {
	if g == nil {
		return ""
	}
	return g.User
}

// Same reports whether two grants allow the same to the same user.
func (g *Grant) Same(h *Grant) bool {
	if g == nil || h == nil {
		return g == h
	}
	a, b := *g, *h
	a.Account, a.Audit, b.Account, b.Audit = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// Rules reports whether what belongs to others may be seen and changed.
func (g *Grant) Rules() bool { return g == nil || g.Admin }

// Owns reports whether what owner made, or runs, may be seen and changed.
func (g *Grant) Owns(owner string) bool { return g.Rules() || g.User == owner }

// Sees is whose processes may be observed; nil: all.
func (g *Grant) Sees() *plan.Viewer {
	switch {
	case g == nil:
		return nil
	case g.Viewer == nil && !g.Admin:
		return &plan.Viewer{Name: g.User, Any: true, Shared: true}
	}
	return g.Viewer
}

// Uses is the account on which things are counted; nil: none.
func (g *Grant) Uses() *Account {
	if g == nil {
		return nil
	}
	return g.Account
}

// MayTrace refuses who may only read.
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
	return refuse("start the program, and observe it by -p PID", "starting a program as target needs the grant \"commands\"")
}

// MayModel refuses CREATE MODEL and DROP MODEL.
func (g *Grant) MayModel() error {
	if g == nil || g.Models {
		return nil
	}
	return refuse("", "making and dropping models needs the grant \"models\"")
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

// file resolves a path in one of some directories. Symbolic links count for
// what they lead to; whoever can write into such a directory on the server can
// change them afterwards, so that these should be the server's alone.
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
	return "", refuse("yours: "+strings.Join(dirs, ", "), "'%s' is in no directory in which you may %s", file, verb)
}

// resolve is a path without symbolic links; "" if its directory is not there.
// The file itself need not be.
func resolve(file string) string {
	if p, err := filepath.EvalSymlinks(file); err == nil {
		return p
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return ""
	}
	p := filepath.Join(dir, filepath.Base(file))
	if isLink(p) { // to what is not there, which writing would create
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

// MayPost refuses a WEBHOOK's URL.
func (g *Grant) MayPost(address string) error {
	if g == nil || g.Anywhere {
		return nil
	}
	if len(g.Webhooks) == 0 {
		return refuse("", "WEBHOOK needs the grant \"webhooks\"")
	}
	u, err := url.Parse(address)
	if err == nil && slices.ContainsFunc(g.Webhooks, func(p Prefix) bool { return p.covers(u) }) {
		return nil
	}
	names := make([]string, len(g.Webhooks))
	for i, p := range g.Webhooks {
		names[i] = p.String()
	}
	return refuse("yours: "+strings.Join(names, ", "), "'%s' is no address to which you may send", address)
}

// Prefix is the beginning of a URL: its scheme, host and port, and folders of
// its path. It is no beginning of a text: https://a.example covers neither
// https://a.example.org nor https://a.example@b.org.
type Prefix struct{ u url.URL }

// ParsePrefix reads http://host[:port][/path] or https://...
func ParsePrefix(text string) (Prefix, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Prefix{}, fmt.Errorf("%q is no URL", text)
	case u.Scheme != "http" && u.Scheme != "https":
		return Prefix{}, fmt.Errorf("%q begins with neither http:// nor https://", text)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return Prefix{}, fmt.Errorf("%q is more or less than scheme, host and path", text)
	}
	return Prefix{*u}, nil
}

func (p Prefix) String() string { return p.u.String() }

func (p Prefix) covers(u *url.URL) bool {
	if u.User != nil || u.Opaque != "" || u.Scheme != p.u.Scheme || !strings.EqualFold(u.Hostname(), p.u.Hostname()) || port(u) != port(&p.u) {
		return false
	}
	folder := strings.TrimSuffix(p.u.Path, "/")
	// As the receiver may read it: without . and .., and escapes undone.
	at := path.Clean("/" + u.Path)
	return folder == "" || at == folder || strings.HasPrefix(at, folder+"/")
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
