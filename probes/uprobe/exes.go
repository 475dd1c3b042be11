package uprobe

import (
	"time"

	"endoscope/probes/process"
)

// exeNames knows the executables of processes, for events of libraries. It
// belongs to the reader.
type exeNames struct {
	byPID map[int]exeName
	now   func() time.Time
}

type exeName struct {
	path  string
	until time.Time // pids are reused, and exec changes the executable
}

const (
	exeNameLife = time.Second
	maxExeNames = 8192
)

func newExeNames() *exeNames { return &exeNames{byPID: map[int]exeName{}, now: time.Now} }

// of is the path of the executable of process pid, "" if it is not known. A
// process that has ended keeps the name that was last seen.
func (x *exeNames) of(pid int) string {
	known, ok := x.byPID[pid]
	now := x.now()
	if ok && now.Before(known.until) {
		return known.path
	}
	if p, runs := process.Lookup(pid); runs && p.Exe != "" {
		known.path = p.Exe
	}
	if len(x.byPID) >= maxExeNames {
		clear(x.byPID)
	}
	known.until = now.Add(exeNameLife)
	x.byPID[pid] = known
	return known.path
}
