package uprobe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// coming says which modules a query waits for that are mapped while it runs.
type coming struct {
	inModule func(name, class, module string) (bool, error)
	names    []string // the only ones that can come; nil: others can
	notices  []string
}

// noModules is the refusal of a query none of whose modules is mapped.
type noModules struct {
	why     *plan.Error
	sel     *selection.Selector
	running []process.Process
}

// noFunction is the refusal of a query whose modules have no function that it means.
type noFunction struct{ why *plan.Error }

func (e *noModules) Error() string { return e.why.Error() }

func (e *noFunction) Error() string { return e.why.Error() }

// comingOf is what a query over these processes waits for, nil if for nothing.
// set has the modules that were found. Who may not observe everything is not told
// what the machine's processes map.
func comingOf(spec *plan.Acquire, sel *selection.Selector, running []process.Process, set *selection.ModuleSet) *coming {
	if sel.InModule == nil || calls.Nests(spec) && !extends(spec) || !spec.Target.Viewer.Everything() {
		return nil
	}
	c := &coming{inModule: sel.InModule, names: selection.ModuleList(spec.Select)}
	var loaded []string
	for _, m := range set.List {
		if len(m.Mapped) > 0 {
			loaded = append(loaded, m.Name())
		}
	}
	if c.names == nil {
		if len(set.List) == 0 {
			if !selection.SpeaksOfLibraries(spec.Select) {
				return nil
			}
			c.notices = []string{fmt.Sprintf("no module satisfies %s yet: those that are loaded later are monitored from then on", spec.Select)}
		}
		return c
	}
	waits := false
	for _, name := range c.names {
		if !selection.IsLibraryName(name) {
			continue
		}
		if staysLoaded(name, running, set) {
			continue
		}
		waits = true
		if !slices.Contains(loaded, name) {
			c.notices = append(c.notices, notLoaded(name, running))
		}
	}
	if !waits {
		return nil
	}
	return c
}

// notLoaded is the notice of a module that no process has.
func notLoaded(name string, running []process.Process) string {
	said := name + " is not loaded: its functions are monitored from when it is"
	var names []string
	for _, p := range running {
		mappings, _ := process.Modules(p.PID)
		for _, m := range mappings {
			if base := filepath.Base(m.Path); !slices.Contains(names, base) {
				names = append(names, base)
			}
		}
	}
	if near := plan.Nearest(name, names, nearestNames); len(near) > 0 {
		said += "; loaded is " + strings.Join(near, ", ")
	}
	return said
}

// staysLoaded reports whether every process has mapped the module, or will before
// its first instruction, because its executable needs it: no other file takes its
// place.
func staysLoaded(name string, running []process.Process, set *selection.ModuleSet) bool {
	for _, p := range running {
		has := slices.ContainsFunc(set.List, func(m *selection.Module) bool {
			return m.Name() == name && (slices.ContainsFunc(m.Mapped, func(pl selection.Place) bool { return pl.Process.PID == p.PID }) ||
				slices.ContainsFunc(m.Expected, func(q process.Process) bool { return q.PID == p.PID }))
		})
		if !has || !isNeeded(p, name) {
			return false
		}
	}
	return len(running) > 0 || slices.ContainsFunc(set.List, func(m *selection.Module) bool { return m.Name() == name })
}

// isNeeded reports whether a process' executable will not start without a library
// of this name. The loader itself is named by the kernel's reading of it.
func isNeeded(p process.Process, name string) bool {
	if filepath.Base(p.Exe) == name || strings.HasPrefix(name, "ld-linux") {
		return true
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return true // it has ended
	}
	defer f.Close()
	if !process.SharesRoot(p.PID) {
		return selection.NamesLibrary(f, name) // its libraries are not where ours are
	}
	return slices.ContainsFunc(selection.Libraries(f, p.Exe), func(path string) bool { return filepath.Base(path) == name })
}

// text prints an expression, which may be nil.
func textOf(e plan.Expr) string {
	if e == nil {
		return ""
	}
	return fmt.Sprint(e)
}

// refusal is what Prepare says: of the package's own errors what they say to the
// user.
func refusal(err error) error {
	switch e := err.(type) {
	case *noModules:
		return e.why
	case *noFunction:
		return e.why
	}
	return err
}

// extends reports whether functions can be added to the programs of a query that must
// know how calls nest. Values and classes are read by rules that are in the programs.
func extends(spec *plan.Acquire) bool {
	return !calls.AsksMethods(spec.Out) && !slices.ContainsFunc(calls.ValuesOf(spec), func(v *calls.Value) bool { return v != nil })
}
