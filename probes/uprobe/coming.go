package uprobe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
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
	sel     *selector
	running []process.Process
}

// noFunction is the refusal of a query whose modules have no function that it means.
type noFunction struct{ why *plan.Error }

func (e *noModules) Error() string  { return e.why.Error() }
func (e *noFunction) Error() string { return e.why.Error() }

// comingOf is what a query over these processes waits for, nil if for nothing.
// set has the modules that were found. Who may not observe everything is not told
// what the machine's processes map.
func comingOf(spec *plan.Acquire, sel *selector, running []process.Process, set *moduleSet) *coming {
	if sel.inModule == nil || nests(spec) && !extends(spec) || !spec.Target.Viewer.Everything() {
		return nil
	}
	c := &coming{inModule: sel.inModule, names: moduleList(spec.Select)}
	var loaded []string
	for _, m := range set.list {
		if len(m.in) > 0 {
			loaded = append(loaded, m.name())
		}
	}
	if c.names == nil {
		if len(set.list) == 0 {
			if !speaksOfLibraries(spec.Select) {
				return nil
			}
			c.notices = []string{fmt.Sprintf("no module satisfies %s yet: those that are loaded later are monitored from then on", spec.Select)}
		}
		return c
	}
	waits := false
	for _, name := range c.names {
		if !isLibraryName(name) {
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
func staysLoaded(name string, running []process.Process, set *moduleSet) bool {
	for _, p := range running {
		has := slices.ContainsFunc(set.list, func(m *module) bool {
			return m.name() == name && (slices.ContainsFunc(m.in, func(pl place) bool { return pl.process.PID == p.PID }) ||
				slices.ContainsFunc(m.coming, func(q process.Process) bool { return q.PID == p.PID }))
		})
		if !has || !isNeeded(p, name) {
			return false
		}
	}
	return len(running) > 0 || slices.ContainsFunc(set.list, func(m *module) bool { return m.name() == name })
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
		return namesLibrary(f, name) // its libraries are not where ours are
	}
	return slices.ContainsFunc(needed(f, p.Exe), func(path string) bool { return filepath.Base(path) == name })
}

// addExpected adds the libraries of these names that p has not mapped, where the
// loader would find them: probed there before they are mapped, they leave no gap.
// Others are waited for.
func (s *moduleSet) addExpected(p process.Process, names []string) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !isLibraryName(name) || slices.ContainsFunc(s.list, func(m *module) bool {
			return m.name() == name && slices.ContainsFunc(m.in, func(pl place) bool { return pl.process.PID == p.PID })
		})
	})
	if len(names) == 0 || !process.SharesRoot(p.PID) {
		return
	}
	exe, err := os.Open(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return
	}
	defer exe.Close()
	for _, name := range names {
		path := findExpected(exe, p.Exe, name)
		if path == "" {
			continue
		}
		f, err := process.OpenExe(path)
		if err != nil {
			continue
		}
		if m, err := s.add(f, path, false); err == nil {
			m.coming = append(m.coming, p)
		}
	}
}

// isLibraryName reports whether a module of this name may be loaded by a program
// that runs: it is no misspelt executable.
func isLibraryName(name string) bool {
	return strings.HasSuffix(name, ".so") || strings.Contains(name, ".so.") || strings.HasSuffix(name, ".node")
}

// speaksOfLibraries is isLibraryName of patterns.
func speaksOfLibraries(sel plan.Expr) (yes bool) {
	of := func(c *plan.Const) bool {
		return c.V.Type == types.Varchar && (strings.Contains(c.V.S, ".so") || strings.Contains(c.V.S, ".node") || strings.HasPrefix(strings.TrimPrefix(c.V.S, "^"), "lib"))
	}
	for _, e := range conjuncts(sel) {
		if mentions(e) != 1<<selModule {
			continue
		}
		plan.Walk(e, func(e plan.Expr) {
			if c, ok := e.(*plan.Const); ok {
				yes = yes || of(c)
			}
		})
	}
	return yes
}

// moduleList are the only modules that a selection means, nil if it may mean
// others.
func moduleList(sel plan.Expr) (names []string) {
	for _, c := range listOf(sel, selModule) {
		names = append(names, c.V.S)
	}
	return names
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
