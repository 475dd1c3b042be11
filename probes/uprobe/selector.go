package uprobe

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/elf"
)

// Matcher compiles a predicate over plan.SelectColumns. Probes must not know
// how expressions are evaluated, so the engine brings this.
type Matcher func(sel plan.Expr) (func(name, class, module string) (bool, error), error)

// Indexes of plan.SelectColumns.
const (
	selName = iota
	selClass
	selModule
)

// selector decides which functions of which modules a query means.
type selector struct {
	match func(name, class, module string) (bool, error) // nil: every function
	// inModule is the part of the predicate that is about modules alone, to
	// decide before a module's symbols are read; nil: the predicate does not
	// mention modules, so that the main executable is meant. Any goroutine may call it.
	inModule func(name, class, module string) (bool, error)
	// marked: marked places are meant, too, which are in any module if the
	// predicate does not mention modules; only they if onlyMarked.
	marked, onlyMarked bool
	// names are the only names that can match, if the predicate says so.
	names []*plan.Const
	// modules are the only modules that can match, if the predicate says so.
	modules []string
	// memory is the stream, if that is of memory: only allocators are meant.
	memory string
	sizes  sizing
	// leftOut says that there are allocators which sizes has leave out.
	leftOut atomic.Bool
}

func newSelector(sel plan.Expr, compile Matcher) (*selector, error) {
	s := &selector{}
	if sel == nil {
		return s, nil
	}
	var err error
	if s.match, err = compile(sel); err != nil {
		return nil, err
	}
	s.names = nameList(sel)
	if s.marked = speaksOfMarked(sel); s.marked {
		s.onlyMarked = meansOnlyMarked(sel)
	}
	if mentions(sel)&(1<<selModule) == 0 {
		return s, nil
	}
	s.modules = moduleList(sel)
	var only plan.Expr
	for _, c := range conjuncts(sel) {
		switch {
		case mentions(c) != 1<<selModule:
		case only == nil:
			only = c
		default:
			only = &plan.Call{Fn: "and", Args: []plan.Expr{only, c}, T: types.Boolean}
		}
	}
	if only == nil {
		s.inModule = func(string, string, string) (bool, error) { return true, nil }
		return s, nil
	}
	match, err := compile(only)
	if err != nil {
		return nil, err
	}
	// What processes map is told in one goroutine and looked for in others.
	var mu sync.Mutex
	s.inModule = func(name, class, module string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return match(name, class, module)
	}
	return s, nil
}

// hasFunctions reports whether functions of m may be meant, not only marked places.
func (s *selector) hasFunctions(m *module) bool {
	return !s.onlyMarked && (s.inModule != nil || m.exe)
}

// choice is a selected function and the name by which it was selected.
type choice struct {
	index int // in its module
	name  string
	class string
	lang  elf.Lang
}

// choose returns the functions of m that are meant; module is the base name of its file.
func (s *selector) choose(m *elf.Module, module string) (out []choice, err error) {
	if s.memory != "" {
		return s.allocators(m, module)
	}
	add := func(i int, f *elf.Function) error {
		name, ok, err := f.Name, true, error(nil)
		if s.match != nil {
			name, ok, err = s.matched(f, module)
		}
		if ok && err == nil {
			out = append(out, choice{i, name, f.Class, f.Lang})
		}
		return err
	}
	if s.match == nil || s.names == nil {
		for i, f := range m.All() {
			if err := add(i, &f); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	seen := map[int]bool{}
	for _, c := range s.names {
		for _, i := range m.Find(c.V.S) {
			if seen[i] {
				continue
			}
			seen[i] = true
			f := m.Function(i)
			if err := add(i, &f); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// matched tries the function's names, the one that users see first.
func (s *selector) matched(f *elf.Function, module string) (string, bool, error) {
	if ok, err := s.match(f.Name, f.Class, module); ok || err != nil {
		return f.Name, ok, err
	}
	if f.Mangled != f.Name && f.Mangled != "" {
		if ok, err := s.match(f.Mangled, f.Class, module); ok || err != nil {
			return f.Mangled, ok, err
		}
	}
	for _, alias := range f.Aliases {
		if ok, err := s.match(alias, f.Class, module); ok || err != nil {
			return alias, ok, err
		}
	}
	return "", false, nil
}

// nameList are the only names that function_name may have where the predicate
// holds; nil: it may have others.
func nameList(e plan.Expr) []*plan.Const { return listOf(e, selName) }

// listOf are the only values that a column may have where the predicate holds;
// nil: it may have others.
func listOf(e plan.Expr, column int) []*plan.Const {
	switch e := e.(type) {
	case *plan.In:
		if !isColumn(e.X, column) {
			return nil
		}
		out := make([]*plan.Const, len(e.List))
		for i := range e.List {
			out[i] = &e.List[i]
		}
		return out
	case *plan.Call:
		if len(e.Args) != 2 {
			return nil
		}
		switch e.Fn {
		case "=":
			for i, x := range e.Args {
				if c, ok := e.Args[1-i].(*plan.Const); ok && isColumn(x, column) && c.V.Type == types.Varchar {
					return []*plan.Const{c}
				}
			}
		case "and":
			if l := listOf(e.Args[0], column); l != nil {
				return l
			}
			return listOf(e.Args[1], column)
		case "or":
			if l, r := listOf(e.Args[0], column), listOf(e.Args[1], column); l != nil && r != nil {
				return append(l, r...)
			}
		}
	}
	return nil
}

// refusePaths refuses a comparison of module with a path: a module is called by
// its file's name, so that it would mean none, or with NOT all.
func refusePaths(spec *plan.Acquire) (err error) {
	refuse := func(c *plan.Const, op string) {
		if err != nil || c.V.Type != types.Varchar || !strings.Contains(c.V.S, "/") {
			return
		}
		start, stop := spec.Start, spec.Stop
		if c.Stop > c.Start {
			start, stop = c.Start, c.Stop
		}
		e := plan.Errorf(start, stop, "no module is called '%s': modules have the names of their files, without folders", c.V.S)
		if base := filepath.Base(c.V.S); base != "/" && base != "." {
			e = e.WithHint("module %s '%s'", op, base)
		}
		err = e
	}
	plan.Walk(spec.Select, func(x plan.Expr) {
		switch x := x.(type) {
		case *plan.In:
			for i := range x.List {
				if isColumn(x.X, selModule) {
					refuse(&x.List[i], "=")
				}
			}
		case *plan.Call:
			for i, a := range x.Args {
				if c, ok := a.(*plan.Const); ok && len(x.Args) == 2 && isColumn(x.Args[1-i], selModule) {
					refuse(c, strings.ToUpper(x.Fn))
				}
			}
		}
	})
	return err
}

func isColumn(e plan.Expr, index int) bool {
	c, ok := e.(*plan.Col)
	return ok && c.Index == index
}

// mentions is the set of columns that e mentions, a bit each.
func mentions(e plan.Expr) (set uint) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			set |= 1 << c.Index
		}
	})
	return set
}

func conjuncts(e plan.Expr) []plan.Expr {
	if c, ok := e.(*plan.Call); ok && c.Fn == "and" {
		var out []plan.Expr
		for _, a := range c.Args {
			out = append(out, conjuncts(a)...)
		}
		return out
	}
	return []plan.Expr{e}
}
