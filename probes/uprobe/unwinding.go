package uprobe

import (
	"os"
	"path/filepath"
	"strings"

	"endoscope/probes/process"
)

// unwound says why calls of a library's functions may be left by unwinding
// although nothing in its own code tells: an exception thrown in a callback
// passes through the library of C that made the call. "": they may not, as far
// as the processes tell that use it.
//
// It is said of libraries alone. An executable of C that uses a library of C++
// is common (PostgreSQL has one for its collations), and exceptions do not leave
// such a library.
func (r *resolver) unwound(m *module) string {
	if m.exe {
		return ""
	}
	for _, pl := range m.in {
		mappings, err := process.Modules(pl.process.PID)
		if err != nil {
			continue // it has ended
		}
		for _, mp := range mappings {
			if isUnwinder(mp.Path) {
				return throughLibrary
			}
			if mp.Path == pl.process.Exe && r.unwinds(process.OpenModule(pl.process.PID, mp)) {
				return throughLibrary
			}
		}
	}
	for _, path := range r.spec.Target.Exes {
		f, err := process.OpenExe(path)
		if err != nil {
			continue
		}
		for _, lib := range needed(f, path) {
			if isUnwinder(lib) {
				f.Close()
				return throughLibrary
			}
		}
		if r.unwinds(f, nil) {
			return throughLibrary
		}
	}
	return ""
}

const throughLibrary = "an exception of the program that uses the library may unwind through it"

// isUnwinder reports whether a library is the run-time support of a language
// with exceptions.
func isUnwinder(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "libstdc++.so") || strings.HasPrefix(name, "libc++.so") || strings.HasPrefix(name, "libc++abi.so")
}

// unwinds reports whether an executable, which it closes, is of such a language.
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
