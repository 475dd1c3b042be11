package selection

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
)

// Change is when a file was changed last, ns since the epoch; 0: it does not
// matter, nobody writes into a probed file unseen. One without probes may be written
// anew, and its inode be another file's.
type Change int64

// Mapping is a mapping of a process of the target.
type Mapping struct {
	Process process.Process
	Mapping process.Mapping
	At      int64 // when it was made; 0: it is not known
	Left    bool  // it is there no more, or the process is not
}

// open opens the file.
func (f *Mapping) open() (*os.File, error) {
	if f.Left {
		return process.OpenLeft(f.Process.PID, f.Mapping)
	}
	return process.OpenModule(f.Process.PID, f.Mapping)
}

// Still reports whether the mapping is there as it was found.
func (f *Mapping) Still() bool {
	mappings, _ := process.Modules(f.Process.PID)
	return slices.Contains(mappings, f.Mapping)
}

// Changed is the change of the file, false if it is gone.
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
