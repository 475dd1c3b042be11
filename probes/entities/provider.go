package entities

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sort"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/sched"
)

// Provider implements the streams of entities with the sources of other
// providers.
type Provider struct {
	calls   probes.Provider // of functions
	threads probes.Provider
	cache   *elf.Cache
}

// New returns a provider that uses those of calls (package uprobe) and of
// threads (package sched). It keeps nothing between queries.
func New(calls, threads probes.Provider, cache *elf.Cache) *Provider {
	return &Provider{calls, threads, cache}
}

// Streams implements probes.Provider.
func (*Provider) Streams() []string { return []string{EntityEvents, ActivityEvents} }

// Close implements probes.Provider; there is nothing to free.
func (*Provider) Close() error { return nil }

// Prepare prepares the parts. The parts depend on the categories that satisfy
// the query's condition.
func (p *Provider) Prepare(ctx context.Context, spec *plan.Acquire) (_ probes.Source, err error) {
	if err := tables[spec.Stream].Check(spec); err != nil {
		return nil, err
	}
	if spec.Target.IsZero() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s needs a process", spec.Stream).
			WithHint("add WHERE pid = N, process = 'name' or exe = '/path', or run USE 'name' before")
	}
	if spec.Target.Follow { // entities are told apart within one process
		own := *spec
		own.Target.Follow = false
		spec = &own
	}
	running, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, err
	}
	s, err := newSource(spec, newLibrary(p.cache))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Stop()
		}
	}()
	if err := s.add(ctx, p.threads, sched.Threads, spec.Target, nil, decodeThreads); err != nil {
		return nil, err
	}
	java := runsJava(running)
	if spec.Stream == ActivityEvents {
		s.world.activity = true
		if len(categories(spec.Filter, spec.Out)) < len(allCategories) {
			return s, nil // events about entities have no category
		}
		if java {
			return s, p.addMonitors(ctx, s)
		}
		return s, p.addLocks(ctx, s, running)
	}
	for _, c := range categories(spec.Filter, spec.Out) {
		s.world.entities[c] = true
	}
	if java {
		return s, p.addJava(ctx, s)
	}
	native, err := s.readExecutables(running)
	if err != nil {
		return nil, err
	}
	s.world.structors = s.library.structors
	objects, invocations := s.world.entities[objectCategory], s.world.entities[invocationCategory]
	if !native && (objects || invocations) {
		s.notices = append(s.notices, "Go programs have no objects and invocations here, since goroutines are not threads: use function_call for their calls")
		objects, invocations = false, false
	}
	switch {
	case invocations:
		err = s.add(ctx, p.calls, catalog.FunctionCall, spec.Target, nil, decodeCalls)
	case objects && len(s.library.structors) > 0:
		var names []string
		for name := range s.library.structors {
			names = append(names, name)
		}
		sort.Strings(names)
		err = s.add(ctx, p.calls, catalog.FunctionCall, spec.Target, isOneOf(selectName, names...), decodeCalls)
	case objects:
		s.notices = append(s.notices, "no class of the program has visible constructors or destructors")
	}
	if err != nil {
		return nil, err
	}
	if invocations {
		s.followCalls(s.parts[len(s.parts)-1])
	}
	if objects && s.library.trivial {
		// If this is refused, such objects end when others take their address.
		target, modules := p.libraries(s.spec.Target, running)
		if err := s.add(ctx, p.calls, catalog.FunctionStart, target, plan.And(isOneOf(selectName, "free"), isOneOf(selectModule, modules...)), decodeFrees); err != nil {
			s.notices = append(s.notices, "objects without destructor end only when others take their address: "+err.Error())
		}
	}
	if s.world.entities[typeCategory] {
		// If this is refused, types of libraries loaded later are not reported.
		sel := plan.And(isOneOf(selectName, loaderFunction), isOneOf(selectModule, loaders...))
		if err := s.add(ctx, p.calls, catalog.FunctionStart, spec.Target, sel, decodeLoads); err != nil {
			s.notices = append(s.notices, "types of libraries loaded later are not reported: "+err.Error())
		}
	}
	return s, nil
}

// javaMachine is the library that contains the Java machine.
const javaMachine = "libjvm.so"

func runsJava(running []process.Process) bool {
	return slices.ContainsFunc(running, func(p process.Process) bool {
		mappings, _ := process.Modules(p.PID)
		return slices.ContainsFunc(mappings, func(m process.Mapping) bool { return filepath.Base(m.Path) == javaMachine })
	})
}

// addJava adds the calls of Java methods, by which their classes are known. The
// machine does not reveal where objects are.
func (p *Provider) addJava(ctx context.Context, s *source) error {
	e := s.world.entities
	if e[objectCategory] {
		s.notices = append(s.notices, "objects of Java programs are not reported: the Java machine does not reveal where they are")
		e[objectCategory] = false
	}
	if !e[invocationCategory] && !e[typeCategory] {
		return nil
	}
	if e[typeCategory] {
		s.notices = append(s.notices, "Java classes are reported from the first call of one of their methods until they are unloaded")
	}
	s.world.byUse, s.world.structors = true, nil
	if err := s.add(ctx, p.calls, catalog.FunctionCall, s.spec.Target, nil, decodeMethods); err != nil {
		return err
	}
	unloading := plan.And(isOneOf(selectName, "usdt:hotspot:class__unloaded"), isOneOf(selectModule, javaMachine))
	if err := s.add(ctx, p.calls, catalog.FunctionStart, s.spec.Target, unloading, decodeUnloads); err != nil {
		s.notices = append(s.notices, "unloading of Java classes is not reported: "+err.Error())
	}
	return nil
}

// addMonitors adds the monitor events of a Java machine.
func (p *Provider) addMonitors(ctx context.Context, s *source) error {
	s.notices = append(s.notices, "Java monitors are reported only while a thread waits for them: the thread that waits, and the one that holds the monitor")
	names := slices.Sorted(maps.Keys(monitorPlaces))
	s.askOwners()
	return s.add(ctx, p.calls, catalog.FunctionStart, s.spec.Target, plan.And(isOneOf(selectName, names...), isOneOf(selectModule, javaMachine)), decodeLockCalls)
}

// addLocks adds calls of lock functions and their returns.
func (p *Provider) addLocks(ctx context.Context, s *source, running []process.Process) error {
	target, modules := p.libraries(s.spec.Target, running)
	calls, returns := lockNames()
	where := isOneOf(selectModule, modules...)
	if err := s.add(ctx, p.calls, catalog.FunctionStart, target, plan.And(isOneOf(selectName, calls...), where), decodeLockCalls); err != nil {
		return err
	}
	return s.add(ctx, p.calls, catalog.FunctionEnd, target, plan.And(isOneOf(selectName, returns...), where), decodeLockReturns)
}

// libraries returns the modules that may contain libc's functions, and the
// target on which to probe them.
func (*Provider) libraries(target plan.Target, running []process.Process) (plan.Target, []string) {
	modules := slices.Clone(libc)
	for _, r := range running {
		modules = append(modules, filepath.Base(r.Exe)) // linked statically
		if target.Command && !target.Viewer.Private() {
			// A command's libraries are not mapped yet, but its executable
			// names them. A viewer who may only probe single processes waits
			// for the mappings instead.
			target.Exes = append(slices.Clone(target.Exes), r.Exe)
		}
	}
	return target, modules
}

// loaderFunction is called by the dynamic linker before and after it changes
// the mappings, for debuggers (elf/dl-debug.c of glibc, ldso/dynlink.c of
// musl).
const loaderFunction = "_dl_debug_state"

var (
	loaders = []string{"ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1"}
	libc    = []string{"libc.so.6", "libpthread.so.0", "ld-musl-x86_64.so.1"}
)

// Indexes into plan.SelectColumns.
const (
	selectName   = 0
	selectModule = 2
)

// isOneOf returns a condition that a column is one of names.
func isOneOf(column int, names ...string) plan.Expr {
	out := &plan.In{X: &plan.Col{Index: column, Name: plan.SelectColumns[column], T: types.Varchar}}
	for _, name := range names {
		out.List = append(out.List, plan.Const{V: types.Str(name)})
	}
	return out
}

var allCategories = []string{typeCategory, objectCategory, threadCategory, invocationCategory}

// categories returns the categories of rows that can satisfy a condition.
func categories(filter plan.Expr, out types.Schema) []string {
	all := slices.Clone(allCategories)
	column := out.Index("category")
	if column < 0 {
		return all
	}
	is := func(e plan.Expr) bool {
		c, ok := e.(*plan.Col)
		return ok && c.Index == column
	}
	var walk func(e plan.Expr)
	keep := func(named func(string) bool) {
		all = slices.DeleteFunc(all, func(c string) bool { return !named(c) })
	}
	walk = func(e plan.Expr) {
		switch e := e.(type) {
		case *plan.In:
			if is(e.X) {
				keep(func(c string) bool {
					return slices.ContainsFunc(e.List, func(k plan.Const) bool { return k.V.S == c })
				})
			}
		case *plan.Call:
			if e.Fn == "and" {
				for _, a := range e.Args {
					walk(a)
				}
			}
			if e.Fn == "=" && len(e.Args) == 2 {
				for i, a := range e.Args {
					if k, ok := e.Args[1-i].(*plan.Const); ok && is(a) {
						keep(func(c string) bool { return c == k.V.S })
					}
				}
			}
		}
	}
	walk(filter)
	return all
}
