package selection

import (
	"bufio"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
)

// Limits that protect against hostile files and unusual systems.
const (
	maxLibraries  = 1024
	maxConfFiles  = 256
	maxConfLevels = 8
)

// defaultLibraryDirs are the directories that the loader searches last (ld.so(8), and
// the multiarch ones of Debian).
var defaultLibraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
}

// Libraries returns the paths of the libraries that an executable will load when it
// starts, in the loader's order: DT_NEEDED, searched along RPATH or RUNPATH, the
// configured directories and the default ones. No process needs to be running.
func Libraries(exe *os.File, path string) []string {
	dirs := append(configuredDirs("/etc/ld.so.conf", 0, new(int)), defaultLibraryDirs...)
	var out []string
	seen := map[string]bool{}
	add := func(f *os.File, path string) {
		e, err := elf.NewFile(f)
		if err != nil {
			return
		}
		names, _ := e.ImportedLibraries()
		own := runPaths(e, path)
		for _, name := range names {
			if seen[name] || len(seen) >= maxLibraries {
				continue
			}
			seen[name] = true
			if lib := findLibrary(name, own, dirs, e.Machine); lib != "" {
				out = append(out, lib)
			}
		}
	}
	add(exe, path)
	// The libraries that the executable needs are found along its own paths. Its
	// libraries that need the same name get the same file.
	for i := 0; i < len(out); i++ {
		if f, err := process.OpenExe(out[i]); err == nil {
			add(f, out[i])
			f.Close()
		}
	}
	return out
}

// findExpected returns the path at which the loader finds a library of this name for
// an executable, "" if it finds none.
func findExpected(exe *os.File, path, name string) string {
	e, err := elf.NewFile(exe)
	if err != nil {
		return ""
	}
	dirs := append(configuredDirs("/etc/ld.so.conf", 0, new(int)), defaultLibraryDirs...)
	return findLibrary(name, runPaths(e, path), dirs, e.Machine)
}

// FindLibrary returns the path at which the loader finds a library of this name for a
// program without paths of its own, "" if it finds none.
func FindLibrary(name string) string {
	dirs := append(configuredDirs("/etc/ld.so.conf", 0, new(int)), defaultLibraryDirs...)
	return findLibrary(name, nil, dirs, elf.EM_X86_64)
}

// NamesLibrary reports whether an executable itself lists a library in DT_NEEDED.
func NamesLibrary(exe *os.File, library string) bool {
	e, err := elf.NewFile(exe)
	if err != nil {
		return false
	}
	all, _ := e.ImportedLibraries()
	return slices.ContainsFunc(all, func(path string) bool { return filepath.Base(path) == library })
}

func runPaths(e *elf.File, path string) []string {
	var out []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		values, _ := e.DynString(tag)
		for _, v := range values {
			for _, dir := range strings.Split(v, ":") {
				origin := filepath.Dir(path)
				dir = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
				if filepath.IsAbs(dir) {
					out = append(out, dir)
				}
			}
		}
	}
	return out
}

// findLibrary returns the path of a library that an executable names, "" if there is
// none. Only regular files are opened: the author of the executable chose the name and
// the directories in own.
func findLibrary(name string, own, dirs []string, machine elf.Machine) string {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			return "" // relative to the process's working directory, not ours
		}
		return name
	}
	for _, list := range [][]string{own, dirs} {
		for _, dir := range list {
			lib := filepath.Join(dir, name)
			f, err := process.OpenExe(lib)
			if err != nil {
				continue
			}
			e, err := elf.NewFile(f)
			same := err == nil && e.Machine == machine
			f.Close()
			if same {
				return lib
			}
		}
	}
	return ""
}

// configuredDirs reads the directories of a configuration file of ldconfig.
func configuredDirs(file string, level int, files *int) []string {
	if *files++; level > maxConfLevels || *files > maxConfFiles {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		line = strings.TrimSpace(line)
		if pattern, ok := strings.CutPrefix(line, "include "); ok {
			pattern = strings.TrimSpace(pattern)
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(file), pattern)
			}
			more, _ := filepath.Glob(pattern)
			for _, m := range more {
				out = append(out, configuredDirs(m, level+1, files)...)
			}
		} else if filepath.IsAbs(line) {
			out = append(out, line)
		}
	}
	return out
}

// IsLibraryName reports whether a running program may load a module of this name: the
// name cannot be a misspelt executable.
func IsLibraryName(name string) bool {
	return strings.HasSuffix(name, ".so") || strings.Contains(name, ".so.") || strings.HasSuffix(name, ".node")
}

// NamesAnyLibrary reports whether the selection contains a name or pattern for which
// IsLibraryName holds.
func NamesAnyLibrary(sel plan.Expr) (yes bool) {
	of := func(c *plan.Const) bool {
		return c.V.Type == types.Varchar && (strings.Contains(c.V.S, ".so") || strings.Contains(c.V.S, ".node") || strings.HasPrefix(strings.TrimPrefix(c.V.S, "^"), "lib"))
	}
	for _, e := range plan.Conjuncts(sel) {
		if Mentions(e) != 1<<plan.SelectModule {
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

// ModuleList returns the only module names that a selection can match, nil if it may
// match others.
func ModuleList(sel plan.Expr) (names []string) {
	for _, c := range listOf(sel, plan.SelectModule) {
		names = append(names, c.V.S)
	}
	return names
}

func IsLibgcc(module string) bool { return strings.HasPrefix(module, "libgcc_s.so") }

// IsLibc reports whether a module is glibc (also by its name before 2.34) or musl.
func IsLibc(module string) bool {
	return strings.HasPrefix(module, "libc.") || strings.HasPrefix(module, "libc-") || strings.HasPrefix(module, "ld-musl-")
}
