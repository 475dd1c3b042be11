package uprobe

import (
	"os"
	"slices"

	"endoscope/probes/process"

	"golang.org/x/sys/unix"
)

// change is when a file was changed last, ns since the epoch; 0: it does not
// matter, nobody writes into a probed file unseen. One without probes may be written
// anew, and its inode be another file's.
type change int64

// found is a mapping of a process of the target.
type found struct {
	process process.Process
	mapping process.Mapping
	at      int64 // when it was made; 0: it is not known
	left    bool  // it is there no more, or the process is not
}

// open opens the file.
func (f *found) open() (*os.File, error) {
	if f.left {
		return process.OpenLeft(f.process.PID, f.mapping)
	}
	return process.OpenModule(f.process.PID, f.mapping)
}

// still reports whether the mapping is there as it was found.
func (f *found) still() bool {
	mappings, _ := process.Modules(f.process.PID)
	return slices.Contains(mappings, f.mapping)
}

// changed is the change of the file, false if it is gone.
func (f *found) changed() (change, bool) {
	file, err := f.open()
	if err != nil {
		return 0, false
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return 0, false
	}
	return change(st.Ctim.Nano()), true
}
