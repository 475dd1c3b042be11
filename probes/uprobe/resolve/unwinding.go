package resolve

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/probes/process"
	"endoscope/probes/uprobe/selection"
)

// unwound returns why calls of a library's functions may be left by unwinding although
// nothing in its own code shows it: an exception thrown in a callback passes through
// the C library function that made the call. "" if no process that uses the library
// indicates this.
//
// Only libraries are checked. A C executable that uses a C++ library is common
// (PostgreSQL uses one for its collations), and exceptions do not leave such a
// library.
func (r *resolver) unwound(m *selection.Module) string {
	if m.Exe {
		return ""
	}
	if r.unwindingProcesses == nil {
		r.unwindingProcesses, r.unwindingPrograms = map[int]bool{}, map[string]bool{}
	}
	for _, pl := range m.Mapped {
		if r.hasUnwinder(pl.Process) {
			return throughLibrary
		}
	}
	for _, path := range r.spec.Target.Exes {
		if r.willUnwind(path) {
			return throughLibrary
		}
	}
	return ""
}

// hasUnwinder reports whether a process has loaded the run-time support of a language
// with exceptions, or runs a program written in one.
func (r *resolver) hasUnwinder(p process.Process) (has bool) {
	if has, known := r.unwindingProcesses[p.PID]; known {
		return has
	}
	defer func() { r.unwindingProcesses[p.PID] = has }()
	mappings, err := process.Modules(p.PID)
	if err != nil {
		return false // it has ended
	}
	return slices.ContainsFunc(mappings, func(mp process.Mapping) bool {
		return isUnwinder(mp.Path) || mp.Path == p.Exe && r.unwinds(process.OpenModule(p.PID, mp))
	})
}

// willUnwind is hasUnwinder for a program that need not be running.
func (r *resolver) willUnwind(path string) (will bool) {
	if will, known := r.unwindingPrograms[path]; known {
		return will
	}
	defer func() { r.unwindingPrograms[path] = will }()
	f, err := process.OpenExe(path)
	if err != nil {
		return false
	}
	if slices.ContainsFunc(selection.Libraries(f, path), isUnwinder) {
		f.Close()
		return true
	}
	return r.unwinds(f, nil)
}

const throughLibrary = "an exception of the program that uses the library may unwind through it"

// isUnwinder reports whether a library is the run-time support of a language with
// exceptions.
func isUnwinder(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "libstdc++.so") || strings.HasPrefix(name, "libc++.so") || strings.HasPrefix(name, "libc++abi.so")
}

// unwinds reports whether an executable is written in such a language. It closes f.
func (r *resolver) unwinds(f *os.File, err error) bool {
	if err != nil {
		return false
	}
	defer f.Close()
	sym, err := r.cache.Open(f, filepath.Base(f.Name()))
	if err != nil {
		return false
	}
	defer sym.Close()
	return sym.Unwinds()
}
