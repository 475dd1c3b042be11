package variable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/debugfiles"
	"endoscope/probes/debugregister"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// Provider observes variables.
type Provider struct{ cache elf.Cache }

// New returns a provider. Nothing is loaded before a query needs it.
func New() *Provider { return &Provider{} }

// Streams implements probes.Provider.
func (p *Provider) Streams() []string { return []string{Stream} }

// Close releases the modules that were read.
func (p *Provider) Close() error { return p.cache.Close() }

// Prepare finds the variables in every process of the target.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	wanted := chosen(spec, "var_name")
	names := distinct(wanted)
	if len(names) == 0 {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s needs the names of variables", Stream).WithHint("WHERE var_name = '...'")
	}
	if err := probes.RequireProcess(spec); err != nil {
		return nil, err
	}
	watches := spec.Every == 0 && !spec.OnDemand
	check := process.RequireNumbered
	if watches {
		check = needs.Check
	}
	if err := check(spec); err != nil {
		return nil, err
	}
	found, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, placed(err, spec)
	}
	s := &source{provider: p, spec: spec, names: names, matcher: process.NewMatcher(spec.Target), subjects: map[int]*subject{},
		numbered: map[int]uint64{}, layouts: newLayouts(debugfiles.Known(spec.Settings)), refusals: map[int]refusal{}, changed: map[int]bool{}, clock: clock.Boot}
	modules := chosen(spec, "module")
	for _, c := range modules {
		s.modules = append(s.modules, c.V.S)
	}
	s.grows = spec.Target.Grows()
	functions := chosen(spec, "function_name")
	var notLocal error // why the names are not variables of functions
	if watches && len(functions) > 0 {
		s.tracer = newTracer(names, distinct(functions), p.cache.With(s.layouts.search))
		if notLocal = s.areLocal(found); notLocal != nil {
			s.tracer = nil
		}
	}
	if watches && s.tracer == nil && len(names) > maxWatched {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%d variables cannot be watched: a processor has %d watchpoints", len(names), maxWatched).
			WithHint("SAMPLE(%s, 10ms) reads the memory instead, and any number of them", Stream)
	}
	for _, process := range found {
		one, err := s.subject(process)
		if errors.Is(err, errUnmapped) && s.awaitsLibraries() {
			s.notices = append(s.notices, fmt.Sprintf("variables of process %d (%s) are observed from when they are loaded: %v", process.PID, process.Comm, err))
			if !s.grows || slices.Contains(spec.Target.PIDs, process.PID) {
				s.numbered[process.PID] = process.StartTime
			}
			s.loads = s.loads || process.Age() < beginning
			continue
		}
		if err == nil && watches && s.tracer == nil {
			err = watchable(one)
		}
		if err != nil {
			return nil, refuseProcess(err, notLocal, process, wanted, functions, spec)
		}
		s.subjects[process.PID] = one
		if !s.grows || slices.Contains(spec.Target.PIDs, process.PID) {
			s.numbered[process.PID] = process.StartTime
		}
	}
	if s.rows, err = table.Writer(spec, clock.Offset()); err != nil {
		return nil, err
	}
	if s.tracer != nil {
		s.notices = s.tracer.notices()
		s.describe()
		return &watched{source: s}, nil
	}
	switch {
	case spec.OnDemand:
		return &demand{source: s}, nil
	case spec.Every > 0:
		return &sampled{source: s}, nil
	}
	if !debugregister.Fire() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "writes cannot be observed on this machine: its hardware watchpoints do not fire, as those of some virtual machines").
			WithHint("SAMPLE(%s, 10ms) reads the memory instead, and needs none", Stream)
	}
	if s.watcher, err = newWatcher(); err != nil {
		return nil, placed(err, spec)
	}
	s.notices = append(s.notices, s.followed()...)
	s.describe()
	return &watched{source: s}, nil
}

// beginning is the time a process may take to load its libraries.
const beginning = 10 * time.Second

// awaitsLibraries reports whether the variables belong to libraries, which a
// process may load later.
func (s *source) awaitsLibraries() bool {
	return len(s.modules) > 0 && s.tracer == nil && !s.spec.OnDemand &&
		!slices.ContainsFunc(s.modules, func(name string) bool { return !strings.Contains(name, ".so") })
}

// distinct returns the distinct texts of constants.
func distinct(list []plan.Const) (names []string) {
	for _, c := range list {
		if !slices.Contains(names, c.V.S) {
			names = append(names, c.V.S)
		}
	}
	return names
}

// areLocal returns an error if no process has the functions with variables of
// those names: the names may mean global variables that the functions write. It
// returns nil if one has them, or if the functions cannot be read; Prepare
// reports that.
func (s *source) areLocal(found []process.Process) (why error) {
	for _, p := range found {
		_, err := newTraced(p, s.modules, s.tracer)
		var none *noLocal
		if !errors.Is(err, errNoFunction) && !errors.As(err, &none) {
			return nil
		}
		why = err
	}
	return why
}

// refuseProcess returns an error about a process, located at the variable in the query.
// notLocal is why the variables are not local to the named functions, if any
// are named.
func refuseProcess(err, notLocal error, p process.Process, wanted, functions []plan.Const, spec *plan.Acquire) error {
	start, stop := spec.Start, spec.Stop
	var name *nameError
	for _, c := range wanted {
		if errors.As(err, &name) && c.V.S == name.name && c.Stop > 0 {
			start, stop = c.Start, c.Stop
		}
	}
	var none *noLocal
	var bare *bareError
	switch missing := errors.Is(err, errNoVariable); {
	case missing && errors.As(notLocal, &none):
		err = fmt.Errorf("%w, and %v", err, none)
	case missing && notLocal != nil:
		err = fmt.Errorf("%w, and no function %s with code of its own", err, strings.Join(distinct(functions), ", "))
	case missing && errors.As(err, &bare):
		return plan.Errorf(start, stop, "process %d (%s): %v", p.PID, p.Comm, err).
			WithHint("%s has no debug information, without which only the variables of its symbol table are known: compile it with -g, or install its debug file under /usr/lib/debug", strings.Join(bare.modules, ", "))
	case missing && len(functions) > 0:
		return plan.Errorf(start, stop, "process %d (%s): %v", p.PID, p.Comm, err).
			WithHint("a variable of a function is read where its lines begin: take %s without SAMPLE", Stream)
	case missing:
		return plan.Errorf(start, stop, "process %d (%s): %v", p.PID, p.Comm, err).
			WithHint("for a variable of a function add AND function_name = '...', for one of a shared library AND module = '...'")
	}
	return plan.Errorf(start, stop, "process %d (%s): %v", p.PID, p.Comm, err)
}

// nameError is an error about one of the requested variables.
type nameError struct {
	name string
	err  error
}

func (e *nameError) Error() string { return e.err.Error() }
func (e *nameError) Unwrap() error { return e.err }

// chosen returns the only values that a column can have where spec's filter
// holds; nil if it can have any.
func chosen(spec *plan.Acquire, column string) []plan.Const {
	index := spec.Out.Index(column)
	if index < 0 || spec.Filter == nil {
		return nil
	}
	list, _ := values(spec.Filter, index)
	return list
}

// values is chosen for a filter; false if the column can have any value.
func values(e plan.Expr, column int) ([]plan.Const, bool) {
	isColumn := func(x plan.Expr) bool {
		c, ok := x.(*plan.Col)
		return ok && c.Index == column
	}
	switch e := e.(type) {
	case *plan.In:
		if isColumn(e.X) {
			return e.List, true
		}
	case *plan.Call:
		if len(e.Args) != 2 {
			return nil, false
		}
		if e.Fn == "=" {
			for i, x := range e.Args {
				if c, isConst := e.Args[1-i].(*plan.Const); isConst && isColumn(x) && c.V.Type == types.Varchar {
					return []plan.Const{*c}, true
				}
			}
			return nil, false
		}
		left, leftOK := values(e.Args[0], column)
		right, rightOK := values(e.Args[1], column)
		switch {
		case e.Fn == "and" && leftOK:
			return left, true
		case e.Fn == "and":
			return right, rightOK
		case e.Fn == "or" && leftOK && rightOK:
			return slices.Concat(left, right), true
		}
	}
	return nil, false
}

// placed adds the position of the stream to an error that has none.
func placed(err error, spec *plan.Acquire) error {
	if errors.Is(err, unix.EMFILE) {
		return plan.Errorf(spec.Start, spec.Stop, "%v", err).WithHint("raise the limit of open files (ulimit -n)")
	}
	return probes.AtStream(err, spec)
}
