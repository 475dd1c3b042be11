package process

import (
	"cmp"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
)

// Limits on what a pattern of paths may cost.
const maxMatches = 500 // files

var maxEntries = 100_000 // of folders, that are looked through; a test sets fewer

// errManyEntries is returned for a folder that has more than maxEntries.
var errManyEntries = errors.New("too many files")

// Matching returns the executables that satisfy t.Matching, compiled as matches: those of
// running processes and, for a pattern that begins with a folder, the programs in it that
// may be started later; of these, a viewer learns nothing. With t.By = process the condition is on the processes' names.
// Refusals are *plan.Error located at t.
func Matching(t plan.Target, matches func(string) (bool, error)) ([]string, error) {
	running, err := ListFor(t.Viewer)
	if err != nil {
		return nil, refuse(t, "processes cannot be listed: %v", err)
	}
	found := map[string]bool{}
	for _, p := range running {
		text := p.Exe
		if t.By == "process" {
			text = p.Comm
		}
		switch ok, err := matches(text); {
		case err != nil:
			return nil, err
		case ok && p.Exe != "":
			found[p.Exe] = true
		}
	}
	if t.By != "process" && maySearch(t.Viewer) {
		if err := inFolders(t, matches, isProgram, found); err != nil {
			return nil, err
		}
	}
	return matchesOf(t, found, "no program satisfies %s", whichRun(t.Viewer))
}

// MatchingFiles returns the programs and libraries that satisfy t.Matching, in the folders
// that the patterns begin with.
func MatchingFiles(t plan.Target, matches func(string) (bool, error)) ([]string, error) {
	found := map[string]bool{}
	if !maySearch(t.Viewer) {
		return nil, refuse(t, "%s does not name files", t.Matching).WithHint("module = '/path', or a process: pid = 42")
	}
	if err := inFolders(t, matches, isCode, found); err != nil {
		return nil, err
	}
	return matchesOf(t, found, "no file of code satisfies %s", "a pattern is compared with the whole path of a file")
}

// maySearch reports whether v may learn which files exist.
func maySearch(v *plan.Viewer) bool { return v == nil }

func matchesOf(t plan.Target, found map[string]bool, none, hint string) ([]string, error) {
	out := make([]string, 0, len(found))
	for path := range found {
		out = append(out, path)
	}
	slices.Sort(out)
	switch {
	case len(out) == 0:
		return nil, refuse(t, none, t.Matching).WithHint("%s", hint)
	case len(out) > maxMatches:
		return nil, refuse(t, "%d files satisfy %s, and at most %d may be observed at a time", len(out), t.Matching, maxMatches).
			WithHint("write a pattern that fewer satisfy")
	}
	return out, nil
}

// inFolders adds the files that match, of the folders that the patterns of t begin with.
func inFolders(t plan.Target, matches func(string) (bool, error), take func(path string) bool, found map[string]bool) error {
	entries := 0
	for _, dir := range foldersOf(t.Matching) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if entries++; entries > maxEntries { // folders count, too
				return errManyEntries
			}
			if err != nil || d.IsDir() {
				return nil // what cannot be read is no program for us
			}
			ok, err := matches(path)
			if ok && err == nil && !found[path] && take(path) {
				found[path] = true
			}
			return err
		})
		if err == errManyEntries {
			return refuse(t, "%s has more than %d files to search for %s", dir, maxEntries, t.Matching).
				WithHint("write a pattern that begins with a longer path")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foldersOf returns the folders in which everything lies that a condition on a path allows,
// without those in others; none for a condition that allows files anywhere, and for the file
// systems that hold no programs.
func foldersOf(e plan.Expr) (dirs []string) {
	plan.Walk(e, func(x plan.Expr) {
		for _, start := range startsOf(x) {
			dir := filepath.Clean(start[:strings.LastIndexByte(start, '/')+1]) + "/"
			if dir != "//" && dir[0] == '/' && !isUnder(dir, "/proc/") && !isUnder(dir, "/sys/") {
				dirs = append(dirs, dir)
			}
		}
	})
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	var out []string
	for _, dir := range dirs {
		if !slices.ContainsFunc(out, func(o string) bool { return isUnder(dir, o) }) {
			out = append(out, dir)
		}
	}
	return out
}

func isUnder(dir, other string) bool { return strings.HasPrefix(dir, other) }

// startsOf returns with what the texts begin that one comparison allows.
func startsOf(x plan.Expr) (out []string) {
	switch x := x.(type) {
	case *plan.In:
		for _, c := range x.List {
			out = append(out, c.V.S)
		}
	case *plan.Call:
		for _, a := range x.Args {
			c, ok := a.(*plan.Const)
			if !ok {
				continue
			}
			switch x.Fn {
			case "like":
				out = append(out, plan.LikePrefix(c.V.S))
			case "=", "starts_with":
				out = append(out, c.V.S)
			}
		}
	}
	return out
}

// isProgram reports whether a file is a native program. A library that can be started, as
// libc.so.6 can, is none: its probes would be in every process.
func isProgram(path string) bool {
	st, err := os.Stat(path)
	if err != nil || st.Mode()&0o111 == 0 {
		return false
	}
	return hasCode(path, func(f *elf.File) bool {
		if f.Type == elf.ET_EXEC {
			return true
		}
		if name, _ := f.DynString(elf.DT_SONAME); len(name) > 0 {
			return false
		}
		flags, _ := f.DynValue(elf.DT_FLAGS_1)
		return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) ||
			slices.ContainsFunc(flags, func(v uint64) bool { return elf.DynFlag1(v)&elf.DF_1_PIE != 0 })
	})
}

// isCode reports whether a file is a native program or a library.
func isCode(path string) bool { return hasCode(path, func(*elf.File) bool { return true }) }

func hasCode(path string, is func(*elf.File) bool) bool {
	file, err := OpenExe(path)
	if err != nil {
		return false
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	return err == nil && (f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN) && is(f)
}
