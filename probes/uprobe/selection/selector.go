package selection

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/lang/java"
)

// Matcher compiles a predicate over plan.SelectColumns. Probes must not know how
// expressions are evaluated, so the engine supplies it.
type Matcher func(sel plan.Expr) (func(name, class, module string) (bool, error), error)

// Selector decides which functions of which modules a query refers to.
type Selector struct {
	Match func(name, class, module string) (bool, error) // nil: every function
	// InModule is the part of the predicate that concerns only modules. It is
	// evaluated before a module's symbols are read; nil: the predicate does not
	// mention modules, and only the main executable is searched. It is safe for
	// concurrent use.
	InModule func(name, class, module string) (bool, error)
	// Marked is true if marked places are included. They may be in any module if the
	// predicate does not mention modules. onlyMarked: nothing else is selected.
	Marked, onlyMarked bool
	// Python is true if functions of Python are selected, and nothing else.
	Python bool
	// Names are the only names that can match, if the predicate restricts them.
	Names []*plan.Const
	// Locations are those of Names that may denote places in the code.
	Locations []Location
	// modules are the only modules that can match, if the predicate restricts them.
	modules []string
	// Memory is the stream if it is allocation or deallocation: only allocators are
	// selected.
	Memory string
	Sizes  Sizing
	// LeftOut is true if Sizes leaves out at least one allocator.
	LeftOut atomic.Bool
}

func New(sel plan.Expr, compile Matcher) (*Selector, error) {
	s := &Selector{}
	if sel == nil {
		return s, nil
	}
	var err error
	if s.Match, err = compile(sel); err != nil {
		return nil, err
	}
	s.Names = NameList(sel)
	s.Locations = locationsOf(s.Names)
	s.Python = SelectsPython(sel)
	if s.Marked = SelectsMarked(sel); s.Marked {
		s.onlyMarked = selectsOnlyMarked(sel)
	}
	if Mentions(sel)&(1<<plan.SelectModule) == 0 {
		return s, nil
	}
	s.modules = ModuleList(sel)
	var only plan.Expr
	for _, c := range plan.Conjuncts(sel) {
		if Mentions(c) == 1<<plan.SelectModule {
			only = plan.And(only, c)
		}
	}
	if only == nil {
		s.InModule = func(string, string, string) (bool, error) { return true, nil }
		return s, nil
	}
	match, err := compile(only)
	if err != nil {
		return nil, err
	}
	// One goroutine receives new mappings; others search for modules.
	var mu sync.Mutex
	s.InModule = func(name, class, module string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return match(name, class, module)
	}
	return s, nil
}

// HasFunctions reports whether functions of m may be selected, not only marked places.
func (s *Selector) HasFunctions(m *Module) bool {
	return !s.onlyMarked && (s.InModule != nil || m.Exe)
}

// Choice is a selected function and the name by which it was selected.
type Choice struct {
	Index int // in its module
	Name  string
	Class string
	Lang  elf.Lang
}

// Choose returns the selected functions of m; module is the base name of its file.
func (s *Selector) Choose(m *elf.Module, module string) (out []Choice, err error) {
	if s.Memory != "" {
		return s.allocators(m, module)
	}
	add := func(i int, f *elf.Function) error {
		name, ok, err := f.Name, true, error(nil)
		if s.Match != nil {
			name, ok, err = s.matched(f, module)
		}
		if ok && err == nil {
			out = append(out, Choice{i, name, f.Class, f.Lang})
		}
		return err
	}
	if s.Match == nil || s.Names == nil {
		for i, f := range m.All() {
			if err := add(i, &f); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	seen := map[int]bool{}
	for _, c := range s.Names {
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

// Has reports whether a function is selected. If the predicate does not mention modules it is
// in any.
func (s *Selector) Has(f *elf.Function, module string) bool {
	_, ok, err := s.matched(f, module)
	return ok && err == nil
}

// matched tests the function's names, the displayed one first.
func (s *Selector) matched(f *elf.Function, module string) (string, bool, error) {
	if ok, err := s.Match(f.Name, f.Class, module); ok || err != nil {
		return f.Name, ok, err
	}
	if f.Mangled != f.Name && f.Mangled != "" {
		if ok, err := s.Match(f.Mangled, f.Class, module); ok || err != nil {
			return f.Mangled, ok, err
		}
	}
	for _, alias := range f.Aliases {
		if ok, err := s.Match(alias, f.Class, module); ok || err != nil {
			return alias, ok, err
		}
	}
	return "", false, nil
}

// NameList returns the only values that function_name may have where the predicate
// holds; nil: it may have others.
func NameList(e plan.Expr) []*plan.Const { return listOf(e, plan.SelectName) }

// listOf returns the only values that a column may have where the predicate holds;
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

// RefusePaths rejects a comparison of module with a path: module is the base name of a
// file, so the comparison would match no module, or every module under NOT.
func RefusePaths(spec *plan.Acquire) (err error) {
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
				if isColumn(x.X, plan.SelectModule) {
					refuse(&x.List[i], "=")
				}
			}
		case *plan.Call:
			for i, a := range x.Args {
				if c, ok := a.(*plan.Const); ok && len(x.Args) == 2 && isColumn(x.Args[1-i], plan.SelectModule) {
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

// Mentions returns the set of columns that e mentions, one bit each.
func Mentions(e plan.Expr) (set uint) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			set |= 1 << c.Index
		}
	})
	return set
}

// allocators returns the functions of a module that a query of the stream Memory
// observes. The operators of C++ are included if they belong to an allocator or to the
// program itself: those of the C++ library always call malloc and free, which cost
// less to observe. An allocator's operators may call malloc and free for some blocks
// only.
func (s *Selector) allocators(m *elf.Module, module string) (out []Choice, err error) {
	for i, f := range m.All() {
		a := Allocator(&f)
		if a == 0 || s.Memory == catalog.Allocation && !a.Allocates() || s.Memory == catalog.Deallocation && !a.Releases() {
			continue
		}
		if IsOperator(&f) && !codesite.In(m).MayAvoid(i, IsAllocator) {
			continue
		}
		if a == TakesText && s.Sizes == AreKnown {
			s.LeftOut.Store(true)
			continue
		}
		name, ok := f.Name, true
		if s.Match != nil {
			if name, ok, err = s.matched(&f, module); err != nil {
				return nil, err
			}
		}
		if ok {
			out = append(out, Choice{i, name, f.Class, f.Lang})
		}
	}
	return out, nil
}

// MatchMethod reports whether a method is selected, and by which of its names: the name
// without parameters is displayed; the others distinguish overloaded methods.
func (s *Selector) MatchMethod(m *java.Method, module string) (name string, ok bool) {
	if name = m.Function(); s.Match == nil {
		return name, true
	}
	for _, n := range append([]string{name}, m.Aliases()...) {
		if ok, _ = s.Match(n, m.Class, module); ok {
			return n, true
		}
	}
	return name, false
}
