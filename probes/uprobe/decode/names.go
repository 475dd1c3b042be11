package decode

import (
	"time"

	"endoscope/probes/process"
)

// Names caches the executables of processes, for events of libraries. The reader owns it.
type Names struct {
	byPID map[int]exeName
	find  func(pid int) string // "": unknown
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

// Find returns the name of process pid, "" if it is unknown. A process that has ended
// keeps the last name seen.
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

// note sets the name of a process that has been found by other means.
func (x *Names) note(pid int, name string) {
	known := x.byPID[pid]
	known.path = name
	x.byPID[pid] = known
}
