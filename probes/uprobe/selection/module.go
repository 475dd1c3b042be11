package selection

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// State is a file's size and the time of its last write, ns since the epoch.
type State struct{ size, at int64 }

func stateOf(f *os.File) (process.FileID, State, bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return process.FileID{}, State{}, false, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return process.FileID{}, State{}, false, err
	}
	return idOf(&st, &fs), State{st.Size, st.Mtim.Nano()}, st.Nlink > 1, nil
}

// IDAt returns the identity of the file at a path, as Module.ID; false if there is none.
func IDAt(path string) (process.FileID, bool) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(path, &st) != nil || unix.Statfs(path, &fs) != nil {
		return process.FileID{}, false
	}
	return idOf(&st, &fs), true
}

// idOf returns the identity of the file that probes are on. A file of an overlay is one of a
// layer, which the containers of an image share, but stat returns another device for each
// container's mount: the inode number is the layer's. Two files of different layers have
// different times of change.
func idOf(st *unix.Stat_t, fs *unix.Statfs_t) process.FileID {
	if fs.Type != unix.OVERLAYFS_SUPER_MAGIC {
		return process.FileID{Dev: st.Dev, Inode: st.Ino}
	}
	h := fnv.New64a()
	fmt.Fprint(h, st.Size, st.Mtim, st.Ctim)
	return process.FileID{Dev: h.Sum64() | 1<<63, Inode: st.Ino}
}

// Module is a file with functions that a target executes.
type Module struct {
	File   *os.File
	ID     process.FileID
	read   State  // when its functions were looked up
	Path   string // as the target sees it
	Exe    bool   // it is the main executable of a target
	Linked bool   // it has several names (hard links)
	Mapped []Place
	// Expected are processes that have just started and will map the module.
	Expected []process.Process
	// Written is true if the file was written after it was probed and is no longer
	// probed. Provider.mu guards it.
	Written bool
}

// Place is where a running process has mapped a module.
type Place struct {
	Process process.Process
	Mapping process.Mapping
}

// IsAsRead reports whether the file is unchanged since its functions were looked up.
func (m *Module) IsAsRead() bool {
	_, now, _, err := stateOf(m.File)
	return err == nil && now == m.read
}

// Name returns the value of the column module.
func (m *Module) Name() string { return filepath.Base(m.Path) }

// Find opens the files whose functions the query can match: the main executables of
// the target or, where the selection has conditions on modules, the mapped modules
// that satisfy them.
func Find(t plan.Target, running []process.Process, sel *Selector) (*ModuleSet, error) {
	set := NewModuleSet()
	fail := func(err error) (*ModuleSet, error) {
		set.Close()
		return nil, err
	}
	fits := func(path string) (bool, error) {
		return sel.InModule("", "", filepath.Base(path))
	}
	if len(t.Files) > 0 {
		if err := set.addFiles(t, running); err != nil {
			return fail(err)
		}
		return set, nil
	}
	for _, p := range running {
		read := process.Modules
		if p.Exe != "" && len(t.PIDs) > 0 {
			read = process.LoadedModules
		}
		mappings, err := read(p.PID)
		if err != nil {
			if Left(t, p) {
				continue
			}
			return fail(RefuseTarget(t, "%v", err))
		}
		if len(mappings) == 0 && len(t.PIDs) == 0 {
			continue // one of several processes; it has no memory: it is ending, or executing exec
		}
		found := false
		for _, mp := range mappings {
			exe := mp.Path == p.Exe
			found = found || exe
			take := exe || sel.Marked
			if sel.InModule != nil {
				if take, err = fits(mp.Path); err != nil {
					return fail(err)
				}
			}
			if !take {
				continue
			}
			if err := set.AddMapped(p, mp, exe); err != nil {
				if !exe && sel.InModule == nil || Left(t, p) {
					continue // not requested by name, or it has just ended
				}
				return fail(RefuseTarget(t, "%v", err))
			}
		}
		if t.Viewer.Everything() {
			set.addExpected(p, sel, mappings)
		}
		if p.Exe == "" && sel.InModule == nil {
			return fail(RefuseTarget(t, "the executable of process %d (%s) cannot be seen: permission denied", p.PID, p.Comm).
				WithHint("this needs the rights of the process, or CAP_SYS_PTRACE: run as root"))
		}
		if !found && sel.InModule == nil {
			if Left(t, p) {
				continue
			}
			return fail(RefuseTarget(t, "process %d (%s) has not mapped its executable %s as code", p.PID, p.Comm, p.Exe))
		}
	}
	if !t.Viewer.Everything() {
		return set, nil // a file that no visible process executes may not be read
	}
	for _, path := range t.Exes {
		if err := set.addExe(path, sel, fits); err != nil {
			// The path may be gone although the file is still executed: its processes
			// have been handled above.
			if len(set.List) > 0 || t.Found && len(t.Exes) > 1 {
				continue
			}
			return fail(placeAt(err, t))
		}
	}
	return set, nil
}

// Left reports whether p, one of several processes that t selects, has ended since or
// executes another program.
func Left(t plan.Target, p process.Process) bool {
	return len(t.PIDs) == 0 && !process.Executes(p)
}

// RefuseTarget returns an error at the target's position in the statement.
func RefuseTarget(t plan.Target, format string, args ...any) *plan.Error {
	start, stop := t.Start, t.Stop
	if stop <= start {
		start, stop = -1, -1
	}
	return plan.Errorf(start, stop, format, args...)
}

// placeAt gives an error without a position the target's position.
func placeAt(err error, t plan.Target) error {
	if e, ok := err.(*plan.Error); ok && e.Start < 0 {
		placed := RefuseTarget(t, "%s", e.Msg)
		placed.Hint = e.Hint
		return placed
	}
	return err
}
