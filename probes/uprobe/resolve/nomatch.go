package resolve

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/selection"
)

// This file has the errors of selections that match nothing, or nothing that can be probed.

// noModules returns the error for a selection that matches no module. The file name of
// a program may differ from the program's name.
func (r *resolver) noModules(running []process.Process) *plan.Error {
	e := plan.Errorf(r.spec.Start, r.spec.Stop, "no module of the target satisfies %s", r.spec.Select)
	own := r.spec.Target.Exes
	if len(running) > 0 {
		own = []string{running[0].Exe}
	}
	if len(own) == 0 || own[0] == "" {
		return e.WithHint("a module is called by its file, such as 'libc.so.6'")
	}
	return e.WithHint("a module is called by its file, such as 'libc.so.6', or '%s' for the program's own", filepath.Base(own[0]))
}

// where names the modules searched; several files may have the same name.
func (r *resolver) where() string {
	names := slices.Compact(slices.Sorted(slices.Values(r.looked)))
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// noMatch returns the error for a selection that matches no function.
func (r *resolver) noMatch(opened []*elf.Module, set *selection.ModuleSet) *plan.Error {
	where := r.where()
	if selection.OfMemory(r.spec) && r.spec.Select == nil {
		return r.noAllocator(opened)
	}
	for _, c := range r.sel.Names {
		if r.found[c.V.S] {
			continue // it exists; another condition excludes it
		}
		start, stop := r.at(c.V.S)
		e := plan.Errorf(start, stop, "no function named %s in %s", c.V.S, where)
		if plain, _, ok := strings.Cut(c.V.S, "("); ok && plain != "" && slices.ContainsFunc(opened, func(m *elf.Module) bool { return len(m.Find(plain)) > 0 }) {
			return e.WithHint("a name is without parameters; DESCRIBE FUNCTION \"%s\" lists those called so, with names (aliases) that distinguish them", plain)
		}
		if hint := inModule(c.V.S); hint != "" {
			return e.WithHint("%s", hint)
		}
		marked := strings.HasPrefix(c.V.S, selection.MarkedPrefix)
		if !marked {
			if r.sel.InModule == nil {
				if hint := r.otherModule(set, c.V.S); hint != "" {
					return e.WithHint("%s", hint)
				}
			}
			if hint := interpreted(opened); hint != "" {
				return e.WithHint("%s", hint)
			}
			if hint := r.strippedHint(opened, set, c.V.S); hint != "" {
				return e.WithHint("%s%s", hint, r.executed())
			}
		}
		if near := r.nearestOf(opened, c.V.S); len(near) > 0 {
			return e.WithHint("did you mean %s?", strings.Join(near, ", "))
		}
		if marked {
			return e.WithHint("SHOW FUNCTIONS LIKE 'usdt:%%' lists the places that are marked")
		}
		return e.WithHint("SHOW FUNCTIONS LIKE '%%' lists what can be monitored%s", r.executed())
	}
	start, stop := r.at("")
	if r.spec.Select == nil {
		return plan.Errorf(start, stop, "no functions are known in %s", where)
	}
	e := plan.Errorf(start, stop, "no function in %s satisfies %s", where, r.spec.Select)
	if selection.Mentions(r.spec.Select)&(1<<plan.SelectClass) != 0 && !slices.ContainsFunc(opened, hasClasses) {
		return e.WithHint("none of the functions there is a method: C has no classes")
	}
	return e.WithHint("SHOW FUNCTIONS LIKE '%%' lists what can be monitored")
}

// executed returns the end of a hint for a target whose children are followed: the function
// may be one of a program that it executes.
func (r *resolver) executed() string {
	if !r.spec.Target.Follow || len(r.spec.Target.PIDs) == 0 || r.sel.InModule != nil {
		return ""
	}
	return "; a program that it executes is chosen by its file: AND exe = '/path/of/program'"
}

// hasClasses reports whether any function of m is a method.
func hasClasses(m *elf.Module) bool {
	for _, f := range m.All() {
		if f.Class != "" {
			return true
		}
	}
	return false
}

const nearestNames = 3

func (r *resolver) nearestOf(opened []*elf.Module, name string) []string {
	if strings.HasPrefix(name, selection.MarkedPrefix) {
		return plan.Nearest(name, r.markedNames, nearestNames)
	}
	return nearest(opened, name)
}

// strippedPrefix begins the generated names of stripped functions.
const strippedPrefix = "sub_"

// nearest returns the names in opened that may have been intended. Names generated
// from the addresses of stripped functions are compared only with names of the same
// kind.
func nearest(opened []*elf.Module, name string) []string {
	var out []string
	for _, m := range opened {
		for _, n := range m.Nearest(name, nearestNames) {
			if !strings.HasPrefix(n, strippedPrefix) || strings.HasPrefix(name, strippedPrefix) {
				out = append(out, n)
			}
		}
	}
	return out[:min(len(out), nearestNames)]
}

// noneLeft returns the error for a selection all of whose functions are skipped.
func (r *resolver) noneLeft() error {
	first := r.skipped[0]
	start, stop := r.at(first.Name)
	verb := "probe"
	if r.noReturn == len(r.skipped) {
		verb = "observe the return of"
	}
	var e *plan.Error
	if len(r.skipped) == 1 {
		e = plan.Errorf(start, stop, "cannot %s %s: %s", verb, first.Name, first.Reason)
	} else {
		e = plan.Errorf(start, stop, "cannot %s any of the %d functions selected: %s", verb, len(r.skipped), listSkipped(r.skipped))
	}
	if r.noReturn > 0 {
		if r.spec.Stream == catalog.FunctionStart {
			return e.WithHint("without depth, function_start needs no return")
		}
		if r.returnsBy == plan.TrapReturns {
			return e.WithHint("function_start works: it needs no return; SET return_probes = 'auto' observes returns where functions leave")
		}
		return e.WithHint("function_start works: it needs no return")
	}
	return e
}

// missing records the listed names that no module has, where other names were found.
func (r *resolver) missing() {
	for _, c := range r.sel.Names {
		if r.found[c.V.S] {
			continue
		}
		reason := "there is no such function"
		if near := r.nearest(c.V.S); len(near) > 0 {
			reason += "; did you mean " + strings.Join(near, ", ") + "?"
		}
		r.skip(c.V.S, reason)
		r.found[c.V.S] = true
	}
}
