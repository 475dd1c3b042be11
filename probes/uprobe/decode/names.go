package decode

import (
	"time"

	"endoscope/probes/process"
)

// Names knows the executables of processes, for events of libraries, or their
// containers. It belongs to the reader.
type Names struct {
	byPID map[int]exeName
	find  func(pid int) string // "": it is not known
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

func newExeNames() *Names { return newNames(exeOf) }

func newNames(find func(pid int) string) *Names {
	return &Names{byPID: map[int]exeName{}, find: find, now: time.Now}
}

func exeOf(pid int) string {
	p, _ := process.Lookup(pid)
	return p.Exe
}

// Find is what is known of process pid, "" if nothing is. A
// process that has ended keeps the name that was last seen.
func (x *Names) Find(pid int) string {
	known, ok := x.byPID[pid]
	now := x.now()
	if ok && now.Before(known.until) {
		return known.path
	}
	if found := x.find(pid); found != "" {
		known.path = found
	}
	if len(x.byPID) >= maxExeNames {
		clear(x.byPID)
	}
	known.until = now.Add(exeNameLife)
	x.byPID[pid] = known
	return known.path
}
