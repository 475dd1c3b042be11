package variable

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/codesite"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
)

// Limits of one program in the kernel (local.bpf.c, and package codegen).
const (
	maxLocalNumbers = 8
	maxLocalTexts   = 4
	maxLocalSites   = 500
	frameSlot       = maxLocalNumbers     // followed by the goroutine and the end of its stack
	firstLocalText  = maxLocalNumbers + 3 // bits of NULL values
)

// locals is the requested variables of functions of a file: the lines at which
// they are live, and how they are read there.
type locals struct {
	sites   []localSite
	columns []localColumn
	notices []string
}

// localSite is an instruction at which variables are read.
type localSite struct {
	codesite.Site
	function string // name as requested
	index    int    // index of the function
	behind   uint64 // offset from its entry, in bytes
	line     int
	begins   bool // every call executes it once, before the other sites
	frame    codegen.Integer
	golang   bool
	values   []*signature.Live // by column; nil: not live here
	declares bool              // it initialises variables
}

// localColumn is the place of a name in a record. A name has two if it is a
// number in one function and a text in another.
type localColumn struct {
	name int // index of the requested name
	text bool
	slot int
	// bound: the value is the length of the slice that the element is in.
	bound bool
}

// noLocal is the error for a name that no variable of the functions has.
type noLocal struct {
	name      string
	functions []string
	has       []string // names of variables that they have
}

func (e *noLocal) Error() string {
	s := fmt.Sprintf("%s has no variable %s", strings.Join(e.functions, ", "), e.name)
	switch near := plan.Nearest(e.name, e.has, 2); {
	case len(near) > 0:
		s += " (did you mean " + strings.Join(near, " or ") + "?)"
	case len(e.has) > 0 && len(e.has) <= 20:
		s += " (it has " + strings.Join(e.has, ", ") + ")"
	}
	return s
}

// errNoFunction is returned for a file that has none of the functions.
var errNoFunction = errors.New("no such function")

// findLocals finds variables of functions in a file.
func findLocals(f *os.File, base string, names, functions []string, cache *elf.Cache) (*locals, error) {
	m, err := cache.Open(f, base)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", base, err)
	}
	defer m.Close()
	l := &locals{}
	var found []int
	called := map[int]string{}
	for _, name := range functions {
		for _, i := range m.Find(name) {
			if _, twice := called[i]; !twice {
				called[i] = name
				found = append(found, i)
			}
		}
	}
	if len(found) == 0 {
		return nil, errNoFunction
	}
	info, err := signature.Open(m)
	if err != nil {
		return nil, fmt.Errorf("%s %w, which is needed for variables of functions: compile it with -g", base, err)
	}
	r := localReader{locals: l, module: m, names: names, known: make([]bool, len(names)), why: make([]error, len(names))}
	var has []string
	for _, i := range found {
		b, err := info.Body(m, i)
		if err != nil {
			return nil, fmt.Errorf("%s of %s %w", called[i], base, err)
		}
		has = append(has, b.Variables()...)
		if err := r.function(b, i, called[i]); err != nil {
			return nil, err
		}
	}
	for n, name := range names {
		read := slices.ContainsFunc(l.columns, func(c localColumn) bool { return c.name == n })
		switch {
		case !r.known[n]:
			return nil, &nameError{name, &noLocal{name, functions, has}}
		case !read && r.why[n] == nil:
			return nil, &nameError{name, fmt.Errorf("%s of %s is in memory or a register at no line that can be probed: the compiler has optimised it away (-O0, of Go -gcflags='-N -l', keeps it)", name, strings.Join(functions, ", "))}
		case !read:
			return nil, &nameError{name, fmt.Errorf("%s of %s %w", name, strings.Join(functions, ", "), r.why[n])}
		case r.why[n] != nil:
			l.notices = append(l.notices, fmt.Sprintf("%s is not seen at each line where it lives: at some it %v", name, r.why[n]))
		}
	}
	if len(l.sites) > maxLocalSites {
		return nil, fmt.Errorf("%s lives at %d lines, and %d are read at most", strings.Join(names, ", "), len(l.sites), maxLocalSites)
	}
	return l, nil
}

// localReader finds the lines at which variables are live.
type localReader struct {
	*locals
	module *elf.Module
	names  []string
	known  []bool  // names that some function has
	why    []error // why a name is not read everywhere
}

// function adds the sites of function i, which the query calls name.
func (r *localReader) function(b *signature.Body, i int, name string) error {
	has := b.Variables()
	any := false
	for n, name := range r.names {
		if slices.Contains(has, pathOf(name)[0]) {
			r.known[n], any = true, true
		}
	}
	if !any {
		return nil
	}
	lines := b.Lines
	begin := codesite.In(r.module).Body(i)
	if !slices.ContainsFunc(lines, func(l signature.Line) bool { return l.Addr == begin }) {
		lines = append([]signature.Line{{Addr: begin}}, lines...)
		slices.SortFunc(lines, func(x, y signature.Line) int { return cmp.Compare(x.Addr, y.Addr) })
	}
	addrs := make([]uint64, len(lines))
	for k, l := range lines {
		addrs[k] = l.Addr
	}
	sites, why, err := codesite.In(r.module).SitesAt(i, addrs)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	apart := 0
	if b.Copies > 0 {
		r.notices = append(r.notices, fmt.Sprintf("%s is inlined into others at %d places: its variables are not seen there", name, b.Copies))
	}
	added, declaring := len(r.sites), map[uint64]bool{}
	for k, l := range lines {
		s := localSite{Site: sites[k], function: name, index: i, line: l.Number, begins: l.Addr == begin, behind: l.Addr - r.module.Function(i).Addr, values: make([]*signature.Live, len(r.columns))}
		if why[k] != nil && s.begins {
			return fmt.Errorf("%s cannot be probed where it begins: the code there %w", name, why[k])
		}
		if before := l.Addr >= r.module.Function(i).Addr && l.Addr < begin; before || errors.Is(why[k], codesite.ErrGrowsStack) {
			continue // the stack check of a Go function, and its slow path
		}
		rule, ok := r.module.UnwindRule(l.Addr)
		framed := ok && rule.CFAExpr == nil && !rule.Outermost
		frame := signature.Frame{Register: int(rule.CFAReg), Offset: rule.CFAOffset}
		if framed {
			s.frame, framed = signature.Register(frame)
			s.golang = r.module.Function(i).Lang == elf.Go
		}
		away := false
		for n, asked := range r.names {
			if l.Number == 0 || !slices.Contains(has, pathOf(asked)[0]) {
				continue
			}
			v, err := b.At(pathOf(asked), l.Addr, frame, signature.Where{MaxText: maxText})
			switch {
			case errors.Is(err, signature.ErrNotLive):
				continue
			case err == nil && errors.Is(why[k], codesite.ErrApart):
				away = true
				continue
			case err == nil && why[k] != nil:
				err = fmt.Errorf("cannot be read: the code there %w", why[k])
			case err == nil && !framed:
				err = errors.New("is in a frame that cannot be found: there is no unwind information")
			}
			if err != nil {
				r.why[n] = err
				continue
			}
			if v.Length != nil {
				length := signature.Live{Value: signature.Value{Value: codegen.Value{Number: v.Length}}}
				if err := r.set(&s, localColumn{name: n, bound: true}, &length); err != nil {
					return err
				}
			}
			if err := r.set(&s, localColumn{name: n, text: v.Text != nil}, &v); err != nil {
				return err
			}
			declaring[v.Declared] = true
		}
		if away {
			apart++
		}
		if s.begins && !framed {
			return fmt.Errorf("%s has no unwind information, which is needed to distinguish calls", name)
		}
		if why[k] == nil && framed {
			r.sites = append(r.sites, s)
		}
	}
	if apart > 0 {
		r.notices = append(r.notices, fmt.Sprintf("%d instructions at which lines of %s begin lie apart from its main part (.cold): its variables are not seen there", apart, name))
	}
	own := slices.DeleteFunc(r.sites[added:], func(s localSite) bool {
		return !s.begins && !declaring[s.Addr] && !slices.ContainsFunc(s.values, isLive)
	})
	for k := range own {
		own[k].declares = declaring[own[k].Addr]
	}
	r.sites = r.sites[:added+len(own)]
	return nil
}

// set makes a site read the value of a column.
func (r *localReader) set(s *localSite, want localColumn, v *signature.Live) error {
	c, err := r.column(want)
	if err != nil {
		return err
	}
	for len(s.values) <= c {
		s.values = append(s.values, nil)
	}
	s.values[c] = v
	return nil
}

// column returns the index of a column, and adds the column if it is new.
func (r *localReader) column(want localColumn) (int, error) {
	for i, c := range r.columns {
		if c.text != want.text {
			continue
		}
		if c.name == want.name && c.bound == want.bound {
			return i, nil
		}
		want.slot++
	}
	switch {
	case want.text && want.slot == maxLocalTexts:
		return 0, fmt.Errorf("more than %d texts are not read in one query", maxLocalTexts)
	case !want.text && want.slot == maxLocalNumbers:
		return 0, fmt.Errorf("more than %d numbers, lengths of slices among them, are not read in one query", maxLocalNumbers)
	}
	r.columns = append(r.columns, want)
	return len(r.columns) - 1, nil
}

// pathOf splits a name into the variable and its fields and elements ([n]).
// Pointers are followed; . and -> are equivalent.
func pathOf(name string) []string { return signature.Path(strings.ReplaceAll(name, "->", ".")) }

// localForm returns the form in which rows have a value.
func localForm(v *signature.Live) form {
	f := form{kind: signed, size: 8, names: v.Names}
	switch {
	case v.Float > 0:
		f.kind, f.size = real, int(v.Float)
	case v.Pointer:
		f.kind = pointer
	case v.Type == types.Boolean:
		f.kind = boolean
	case v.Unsigned:
		f.kind = unsigned
	}
	return f
}

// isLive reports whether a variable is live at a site.
func isLive(v *signature.Live) bool { return v != nil }
