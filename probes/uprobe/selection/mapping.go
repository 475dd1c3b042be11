package selection

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
)

// Change is when a file was last changed, ns since the epoch; 0: irrelevant, because a
// write to a probed file does not go unnoticed. A file without probes may be
// rewritten, and its inode may be reused by another file.
type Change int64

// Mapping is a mapping of a process of the target.
type Mapping struct {
	Process process.Process
	Mapping process.Mapping
	At      int64 // when it was made; 0: unknown
	Left    bool  // the mapping or the process is gone
}

// open opens the file.
func (f *Mapping) open() (*os.File, error) {
	if f.Left {
		return process.OpenLeft(f.Process.PID, f.Mapping)
	}
	return process.OpenModule(f.Process.PID, f.Mapping)
}

// Still reports whether the mapping still exists as it was found.
func (f *Mapping) Still() bool {
	mappings, _ := process.Modules(f.Process.PID)
	return slices.Contains(mappings, f.Mapping)
}

// Changed returns the change time of the file, false if the file is gone.
func (f *Mapping) Changed() (Change, bool) {
	file, err := f.open()
	if err != nil {
		return 0, false
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return 0, false
	}
	return Change(st.Ctim.Nano()), true
}

// ID returns the identity of the mapped file, as Module.ID; false if it cannot be opened any
// more.
func (f *Mapping) ID() (process.FileID, bool) {
	file, err := f.open()
	if err != nil {
		return process.FileID{}, false
	}
	defer file.Close()
	id, _, _, err := stateOf(file)
	return id, err == nil
}
