package selection

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// AddStarting adds the libraries of processes that have just started.
func (s *ModuleSet) AddStarting(t plan.Target, running []process.Process) error {
	programs, err := Find(t, running, &Selector{})
	if err != nil {
		return err
	}
	defer programs.Close()
	return s.AddLibraries(programs, func(string) bool { return true })
}

// addExpected adds the libraries that p has not mapped yet, at the paths where the
// loader would find them: if they are probed before they are mapped, no call is missed.
// They are those with the names of the selection or, where it has a pattern and p has
// not begun, those of its executable that satisfy it. Others are probed once they are
// mapped.
func (s *ModuleSet) addExpected(p process.Process, sel *Selector, mapped []process.Mapping) {
	isMapped := func(name string) bool {
		return slices.ContainsFunc(mapped, func(m process.Mapping) bool { return filepath.Base(m.Path) == name })
	}
	begun := slices.ContainsFunc(mapped, func(m process.Mapping) bool { return IsLibc(filepath.Base(m.Path)) })
	names := slices.DeleteFunc(slices.Clone(sel.modules), func(name string) bool { return !IsLibraryName(name) || isMapped(name) })
	pattern := sel.modules == nil && sel.InModule != nil && !begun
	if len(names) == 0 && !pattern || !process.SharesRoot(p.PID) {
		return
	}
	exe, err := os.Open(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return
	}
	defer exe.Close()
	var paths []string
	for _, name := range names {
		paths = append(paths, findExpected(exe, p.Exe, name))
	}
	if pattern {
		paths = slices.DeleteFunc(Libraries(exe, p.Exe), func(path string) bool {
			wanted, err := sel.InModule("", "", filepath.Base(path))
			return err != nil || !wanted || isMapped(filepath.Base(path))
		})
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		f, err := process.OpenExe(path)
		if err != nil {
			continue // no regular ELF file: the loader would reject it too
		}
		id, err := process.MappedID(f)
		m, failed := s.add(f, path, false)
		if failed != nil {
			continue
		}
		// It may have mapped the file by another name: libz.so.1 leads to libz.so.1.2.13.
		i := slices.IndexFunc(mapped, func(mp process.Mapping) bool { return mp.Dev == id.Dev && mp.Inode == id.Inode })
		switch {
		case slices.ContainsFunc(m.Mapped, func(pl Place) bool { return pl.Process.PID == p.PID }):
		case err == nil && i >= 0:
			m.Mapped = append(m.Mapped, Place{p, mapped[i]})
		default:
			m.Expected = append(m.Expected, p)
		}
	}
}

// AddFound adds the module of a mapping. A module whose mapping is gone is expected to
// be mapped again.
func (s *ModuleSet) AddFound(f *Mapping) error {
	if !f.Left {
		return s.AddMapped(f.Process, f.Mapping, f.Mapping.Path == f.Process.Exe)
	}
	file, err := f.open()
	if err != nil {
		return err
	}
	m, err := s.add(file, f.Mapping.Path, false)
	if err == nil && f.Process.StartTime != 0 {
		m.Expected = append(m.Expected, f.Process)
	}
	return err
}

// AddLibraries adds the libraries that processes will map which are stopped before
// their first instruction, such as a command started to be observed. programs holds
// their executables; wanted selects the libraries.
func (s *ModuleSet) AddLibraries(programs *ModuleSet, wanted func(name string) bool) error {
	begun := map[int]bool{}
	for _, m := range s.List {
		for _, pl := range m.Mapped {
			begun[pl.Process.PID] = begun[pl.Process.PID] || IsLibc(m.Name())
		}
	}
	for _, m := range programs.List {
		for _, pl := range m.Mapped {
			if begun[pl.Process.PID] || pl.Mapping.Path != pl.Process.Exe {
				continue
			}
			for _, path := range Libraries(m.File, pl.Process.Exe) {
				if !wanted(filepath.Base(path)) {
					continue
				}
				f, err := process.OpenExe(path)
				if err != nil {
					continue // no regular ELF file: the loader would reject it too
				}
				lib, err := s.add(f, path, false)
				if err != nil {
					return err
				}
				lib.Expected = append(lib.Expected, pl.Process)
			}
		}
	}
	return nil
}

// ModuleSet is a set of modules; each file occurs once.
type ModuleSet struct {
	List     []*Module
	ByFile   map[process.FileID]*Module
	byMapped map[process.FileID]*Module // by the device and inode in /proc/PID/maps
}

func NewModuleSet() *ModuleSet {
	return &ModuleSet{ByFile: map[process.FileID]*Module{}, byMapped: map[process.FileID]*Module{}}
}

// Close closes the files of the modules whose ownership was not transferred.
func (s *ModuleSet) Close() {
	for _, m := range s.List {
		m.File.Close()
	}
}

func (s *ModuleSet) add(f *os.File, path string, exe bool) (*Module, error) {
	id, read, linked, err := stateOf(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if m := s.ByFile[id]; m != nil {
		f.Close()
		m.Exe = m.Exe || exe
		return m, nil
	}
	m := &Module{File: f, ID: id, read: read, Path: path, Exe: exe, Linked: linked}
	s.ByFile[id] = m
	s.List = append(s.List, m)
	return m, nil
}

func (s *ModuleSet) AddMapped(p process.Process, mp process.Mapping, exe bool) error {
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
	m.Exe = m.Exe || exe
	m.Mapped = append(m.Mapped, Place{p, mp})
	return nil
}

// addExe adds the file that a path refers to now, for processes that start later.
func (s *ModuleSet) addExe(path string, sel *Selector, fits func(string) (bool, error)) error {
	f, err := process.OpenExe(path)
	if err != nil {
		return err
	}
	if sel.InModule == nil && !sel.Marked {
		_, err := s.add(f, path, true)
		return err
	}
	if sel.InModule == nil {
		fits = func(string) (bool, error) { return true, nil }
	}
	libraries := Libraries(f, path)
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
			continue // no regular ELF file: the loader would reject it too
		}
		if _, err := s.add(f, lib, false); err != nil {
			return err
		}
	}
	return nil
}

// addFiles adds the files of a target, and where the running processes have mapped them.
func (s *ModuleSet) addFiles(t plan.Target, running []process.Process) error {
	ids, err := process.FilesOf(t)
	if err != nil {
		return err
	}
	if t.Viewer.Everything() { // else a file that no visible process executes may not be read
		for _, path := range t.Files {
			f, err := process.OpenExe(path)
			if err != nil {
				return placeAt(err, t)
			}
			if _, err := s.add(f, path, false); err != nil {
				return RefuseTarget(t, "%v", err)
			}
		}
	}
	for _, p := range running {
		mappings, _ := process.Modules(p.PID) // it may have ended
		for _, mp := range mappings {
			if !ids[process.FileID{Dev: mp.Dev, Inode: mp.Inode}] {
				continue
			}
			if err := s.AddMapped(p, mp, false); err != nil {
				return RefuseTarget(t, "%v", err)
			}
		}
	}
	return nil
}
