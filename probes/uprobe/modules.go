package uprobe

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// written is how large a file is and when it was written into, ns since the epoch.
type written struct{ size, at int64 }

func stateOf(f *os.File) (process.FileID, written, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return process.FileID{}, written{}, err
	}
	return process.FileID{Dev: st.Dev, Inode: st.Ino}, written{st.Size, st.Mtim.Nano()}, nil
}

// module is a file with functions that a target executes.
type module struct {
	file *os.File
	id   process.FileID
	read written // when its functions were looked up
	path string  // as the target sees it
	exe  bool    // it is a target's main executable
	in   []place
	// coming are processes that have only begun, and will map it.
	coming []process.Process
	// written: somebody has written into it since it was probed, and it is not any more.
	// Provider.mu guards it.
	written bool
}

// place is where a running process has mapped a module.
type place struct {
	process process.Process
	mapping process.Mapping
}

// isAsRead reports whether nobody has written into it since its functions were looked up.
func (m *module) isAsRead() bool {
	_, now, err := stateOf(m.file)
	return err == nil && now == m.read
}

// name is what the column module says.
func (m *module) name() string { return filepath.Base(m.path) }

// moduleSet collects modules, each file once.
type moduleSet struct {
	list     []*module
	byFile   map[process.FileID]*module
	byMapped map[process.FileID]*module // by device and inode as maps tells them
}

func newModuleSet() *moduleSet {
	return &moduleSet{byFile: map[process.FileID]*module{}, byMapped: map[process.FileID]*module{}}
}

// close closes the files of modules that nobody took.
func (s *moduleSet) close() {
	for _, m := range s.list {
		m.file.Close()
	}
}

func (s *moduleSet) add(f *os.File, path string, exe bool) (*module, error) {
	id, read, err := stateOf(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if m := s.byFile[id]; m != nil {
		f.Close()
		m.exe = m.exe || exe
		return m, nil
	}
	m := &module{file: f, id: id, read: read, path: path, exe: exe}
	s.byFile[id] = m
	s.list = append(s.list, m)
	return m, nil
}

func (s *moduleSet) addMapped(p process.Process, mp process.Mapping, exe bool) error {
	key := process.FileID{Dev: mp.Dev, Inode: mp.Inode}
	m := s.byMapped[key]
	if m == nil {
		f, err := process.OpenModule(p.PID, mp)
		if err != nil {
			return err
		}
		if m, err = s.add(f, mp.Path, exe); err != nil {
			return err
		}
		s.byMapped[key] = m
	}
	m.exe = m.exe || exe
	m.in = append(m.in, place{p, mp})
	return nil
}

// findModules opens the files whose functions the query can mean: the main
// executables of the target, or, where the selection speaks of modules, those
// of the mapped ones that fit.
func findModules(t plan.Target, running []process.Process, sel *selector) (*moduleSet, error) {
	set := newModuleSet()
	fail := func(err error) (*moduleSet, error) {
		set.close()
		return nil, err
	}
	fits := func(path string) (bool, error) {
		return sel.inModule("", "", filepath.Base(path))
	}
	for _, p := range running {
		mappings, err := process.Modules(p.PID)
		if err != nil {
			if _, runs := process.Lookup(p.PID); !runs && len(t.PIDs) == 0 {
				continue // one of several, and it has just ended
			}
			return fail(refuseTarget(t, "%v", err))
		}
		if len(mappings) == 0 && len(t.PIDs) == 0 {
			continue // one of several, and it has no memory: it is ending, or in the middle of exec
		}
		found := false
		for _, mp := range mappings {
			exe := mp.Path == p.Exe
			found = found || exe
			take := exe || sel.marked
			if sel.inModule != nil {
				if take, err = fits(mp.Path); err != nil {
					return fail(err)
				}
			}
			if !take {
				continue
			}
			if err := set.addMapped(p, mp, exe); err != nil {
				if !exe && sel.inModule == nil {
					continue // nobody has asked for it by its name
				}
				return fail(refuseTarget(t, "%v", err))
			}
		}
		if t.Viewer.Everything() {
			set.addExpected(p, sel.modules)
		}
		if p.Exe == "" && sel.inModule == nil {
			return fail(refuseTarget(t, "the executable of process %d (%s) cannot be seen: permission denied", p.PID, p.Comm).
				WithHint("it takes the rights of the process, or CAP_SYS_PTRACE: run as root"))
		}
		if !found && sel.inModule == nil {
			return fail(refuseTarget(t, "process %d (%s) has not mapped its executable %s as code", p.PID, p.Comm, p.Exe))
		}
	}
	if !t.Viewer.Everything() {
		return set, nil // what nobody visible executes may not be looked into
	}
	for _, path := range t.Exes {
		if err := set.addExe(path, sel, fits); err != nil {
			// The path may be gone although it still runs: its processes
			// have been dealt with above.
			if len(set.list) > 0 {
				continue
			}
			return fail(placeAt(err, t))
		}
	}
	return set, nil
}

// addExe adds what stands behind a path now, for processes that start later.
func (s *moduleSet) addExe(path string, sel *selector, fits func(string) (bool, error)) error {
	f, err := process.OpenExe(path)
	if err != nil {
		return err
	}
	if sel.inModule == nil && !sel.marked {
		_, err := s.add(f, path, true)
		return err
	}
	if sel.inModule == nil {
		fits = func(string) (bool, error) { return true, nil }
	}
	libraries := needed(f, path)
	if take, err := fits(path); err != nil || !take {
		f.Close()
		if err != nil {
			return err
		}
	} else if _, err := s.add(f, path, true); err != nil {
		return err
	}
	for _, lib := range libraries {
		take, err := fits(lib)
		if err != nil {
			return err
		}
		if !take {
			continue
		}
		f, err := process.OpenExe(lib)
		if err != nil {
			continue // no regular ELF file: the loader would not take it either
		}
		if _, err := s.add(f, lib, false); err != nil {
			return err
		}
	}
	return nil
}

// refuseTarget makes an error at the target's place in the statement.
func refuseTarget(t plan.Target, format string, args ...any) *plan.Error {
	start, stop := t.Start, t.Stop
	if stop <= start {
		start, stop = -1, -1
	}
	return plan.Errorf(start, stop, format, args...)
}

// placeAt gives a refusal without a place the target's.
func placeAt(err error, t plan.Target) error {
	if e, ok := err.(*plan.Error); ok && e.Start < 0 {
		placed := refuseTarget(t, "%s", e.Msg)
		placed.Hint = e.Hint
		return placed
	}
	return err
}
