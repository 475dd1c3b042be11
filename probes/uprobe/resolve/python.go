package resolve

import (
	"errors"
	"fmt"
	"os"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/lang/python"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// CPython passes marked places when it begins or resumes a function, and when the function
// returns, yields or is left by an exception. Their arguments are the file, the function and
// the line.
const (
	pythonEntry  = "usdt:python:function__entry"
	pythonReturn = "usdt:" + python.ReturnPlace
	pythonLine   = "usdt:python:line"
	pythonArgs   = 3
)

// entriesWithLines is the version that tests whether entries are observed only while it traces
// lines, that is while the counter of the place of lines is not zero (Python/ceval.c,
// OR_DTRACE_LINE). Versions before it always do; later ones have no places of calls.
const entriesWithLines = "3.11"

// interpreters selects the modules that may be CPython.
func interpreters() *selection.Selector {
	return &selection.Selector{InModule: func(_, _, module string) (bool, error) { return python.IsInterpreter(module), nil }}
}

// python adds the places at which the interpreters of the target report calls.
func (r *resolver) python(set *selection.ModuleSet, running []process.Process) error {
	if err := r.refuseUnreported(pythonFunctions, "SELECT stack FROM SAMPLE(stack_sample, 10ms) has the stacks of threads"); err != nil {
		return err
	}
	if selection.Mentions(r.spec.Select)&(1<<plan.SelectClass) != 0 {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "the classes of functions of Python are not known").WithHint("choose functions by function_name and module")
	}
	r.costs = r.prices()
	for _, m := range set.List {
		if err := r.interpreter(m); err != nil {
			return err
		}
	}
	if len(r.wants) == 0 {
		e := plan.Errorf(r.spec.Start, r.spec.Stop, "no process of the target runs CPython, and %s chooses functions of Python", r.spec.Select)
		if len(running) > 0 {
			e = e.WithHint("the target runs %s", running[0].Exe)
		}
		return e
	}
	r.remarks = append(r.remarks, "functions of Python are reported by the interpreter, from their first call on: each time that a generator or a coroutine is resumed is a call, and functions in C are not reported")
	return nil
}

// interpreter adds the places of one file.
func (r *resolver) interpreter(m *selection.Module) error {
	layout, err := python.ReadLayout(m.File, m.Path)
	if errors.Is(err, python.ErrNone) {
		return nil // an executable whose interpreter is a library
	}
	if err != nil {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "cannot observe functions of Python in %s: %v", m.Path, err)
	}
	places, err := r.reportingPlaces(m, pythonFunctions, pythonArgs, pythonReturn, pythonEntry, pythonLine)
	if err != nil {
		return err
	}
	entries, returns := places[pythonEntry], places[pythonReturn]
	if len(entries) == 0 || len(returns) == 0 {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "%s (CPython %s) was built without places at calls of functions", m.Path, layout.Version).WithHint("%s", python.Hint)
	}
	scopes := r.scopes(m, calls.Unseen)
	if r.spec.Stream == catalog.FunctionEnd {
		r.report(m, calls.ReportedEntry, returns, scopes)
		return nil
	}
	// Probes are attached in this order: a recorded entry always has its return probe.
	r.report(m, calls.ReportedReturn, returns, scopes)
	if layout.Version == entriesWithLines {
		if err := r.traceLines(m, layout, places[pythonLine]); err != nil {
			return err
		}
	}
	r.report(m, calls.ReportedEntry, entries, scopes)
	return nil
}

// traceLines makes the interpreter trace lines, so that it reports entries. Nothing is probed
// where it reports lines, as each line would cost a trap: the kernel raises their counter for
// a probe at an instruction that is executed when a process ends. (A place has one counter for
// all who probe it, so the probe is at none where others would.) It does so only in the
// target's processes, whatever scope the other probes have: no other program is slowed down.
func (r *resolver) traceLines(m *selection.Module, layout *python.Layout, lines []*usdt.Probe) error {
	refuse := func(format string, args ...any) *plan.Error {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "CPython %s reports the entries of functions only while it traces lines, %s", layout.Version, fmt.Sprintf(format, args...))
	}
	if !r.spec.Settings.PythonLines {
		return refuse("which makes its Python code some ten times slower").
			WithHint("SET python_entries = 'lines' accepts that; function_end has all returns without it")
	}
	if len(lines) == 0 || lines[0].Semaphore == 0 {
		return refuse("and %s has no place of lines", m.Path)
	}
	if !r.links.ScopesProcess() {
		return refuse("which this kernel would make all processes of %s do", m.Name())
	}
	scopes := pidScopes(m)
	if len(scopes) == 0 {
		return refuse("and no process of the target runs it")
	}
	quiet, err := quietPlace(m.File)
	if err != nil {
		return refuse("which cannot be requested: %v", err)
	}
	quiet.Provider, quiet.Name, quiet.Semaphore = lines[0].Provider, lines[0].Name, lines[0].Semaphore
	added := r.report(m, calls.ReportedReturn, []*usdt.Probe{quiet}, scopes)
	for i := range added {
		added[i].Counter = true
	}
	if r.spec.Target.Grows() {
		r.remarks = append(r.remarks, "of processes that start later, only those report entries that are forked by processes which do")
	}
	r.remarks = append(r.remarks, "CPython "+layout.Version+" traces lines while the query runs, which makes the Python code of the process, and of children that it forks meanwhile, some ten times slower and durations longer")
	return nil
}

// quietPlace returns the second instruction of the code that a file executes when a process
// ends. The first may be probed as a function's entry.
func quietPlace(f *os.File) (*usdt.Probe, error) {
	im, err := elf.OpenImage(f)
	if err != nil {
		return nil, err
	}
	section := im.ELF.Section(".fini")
	if section == nil {
		return nil, errors.New("the file has no code that is executed at its end")
	}
	first, err := codesite.At(im, section.Addr)
	if err != nil {
		return nil, err
	}
	site, err := codesite.At(im, section.Addr+uint64(len(first.Bytes)))
	if err == nil && site.Addr+uint64(len(site.Bytes)) > section.Addr+section.Size {
		err = errors.New("the code that is executed at its end is empty")
	}
	return &usdt.Probe{Site: site}, err
}
