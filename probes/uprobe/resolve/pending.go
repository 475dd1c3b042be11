package resolve

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

// Pending describes the modules that a query waits for, to probe them when they are
// mapped.
type Pending struct {
	InModule func(name, class, module string) (bool, error)
	Names    []string // the only modules that can follow; nil: any
	Notices  []string
}

// NoModules is the error of a query none of whose modules is mapped.
type NoModules struct {
	why     *plan.Error
	Sel     *selection.Selector
	Running []process.Process
}

// NoFunction is the error of a query whose modules contain no selected function.
type NoFunction struct{ Why *plan.Error }

func (e *NoModules) Error() string { return e.why.Error() }

func (e *NoFunction) Error() string { return e.Why.Error() }

// PendingModules returns the modules that a query on these processes waits for, nil if
// there are none. set holds the modules found. A user whose view is restricted is not
// shown what the machine's processes map.
func PendingModules(spec *plan.Acquire, sel *selection.Selector, running []process.Process, set *selection.ModuleSet) *Pending {
	if sel.InModule == nil || sel.Python || len(spec.Target.Files) > 0 || calls.Nests(spec) && !extends(spec) || !spec.Target.Viewer.Everything() {
		return nil
	}
	c := &Pending{InModule: sel.InModule, Names: selection.ModuleList(spec.Select)}
	var loaded []string
	for _, m := range set.List {
		if len(m.Mapped) > 0 {
			loaded = append(loaded, m.Name())
		}
	}
	if c.Names == nil {
		if len(set.List) == 0 {
			if !selection.NamesAnyLibrary(spec.Select) {
				return nil
			}
			c.Notices = []string{fmt.Sprintf("no module satisfies %s yet: those that are loaded later are monitored from then on", spec.Select)}
		}
		return c
	}
	waits := false
	for _, name := range c.Names {
		if !selection.IsLibraryName(name) {
			continue
		}
		if staysLoaded(name, running, set) {
			continue
		}
		waits = true
		if !slices.Contains(loaded, name) {
			c.Notices = append(c.Notices, notLoaded(name, running))
		}
	}
	if !waits {
		return nil
	}
	return c
}

// notLoaded returns the notice for a module that no process has mapped.
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

// staysLoaded reports whether every process has mapped the module, or will do so
// before its first instruction because its executable needs it: no other file can
// replace it.
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

// isNeeded reports whether a process's executable cannot start without a library of
// this name. The loader is always needed: the kernel starts it from PT_INTERP.
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
		return selection.NamesLibrary(f, name) // the process has its own root: its libraries lie elsewhere than ours
	}
	return slices.ContainsFunc(selection.Libraries(f, p.Exe), func(path string) bool { return filepath.Base(path) == name })
}

// TextOf formats an expression, which may be nil.
func TextOf(e plan.Expr) string {
	if e == nil {
		return ""
	}
	return fmt.Sprint(e)
}

// Refusal returns the error of Prepare; for the package's own error types, the error
// shown to the user.
func Refusal(err error) error {
	switch e := err.(type) {
	case *NoModules:
		return e.why
	case *NoFunction:
		return e.Why
	}
	return err
}

// extends reports whether functions can be added to the programs of a query that must
// know how calls nest. They cannot where the programs contain rules for reading values
// or classes.
func extends(spec *plan.Acquire) bool {
	return !calls.ReadsMethodColumns(spec.Out) && !slices.ContainsFunc(calls.ValuesOf(spec), func(v *calls.Value) bool { return v != nil })
}
