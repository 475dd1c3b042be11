package process

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Program is the program of a process, in a form that remains valid when the
// process has ended.
type Program struct {
	Comm string
	Exe  string // path in the process's root; "": unknown
	File FileID // as in maps, or from stat
}

// programs maps the pids of running processes to their programs, maintained by
// records of perf_event_open(2). A Program is immutable.
type programs map[int]*Program

// running returns the programs of the existing processes.
func running() programs {
	ps := programs{}
	list, _ := List() // on error only processes that start later are known
	for _, p := range list {
		program := &Program{Comm: p.Comm, Exe: p.Exe}
		var st unix.Stat_t
		if unix.Stat(path(p.PID, "exe"), &st) == nil {
			program.File = FileID{st.Dev, st.Ino}
		}
		ps[p.PID] = program
	}
	return ps
}

// In a PERF_RECORD_COMM: the name was set by exec.
const commOfExec = 1 << 13

// note updates ps by a record; it does nothing if ps is nil.
func (ps programs) note(r *mapRecord) {
	u32 := func(at int) int { return int(int32(binary.NativeEndian.Uint32(r.body[at:]))) }
	if ps == nil || len(r.body) < 16 {
		return
	}
	pid := u32(0)
	switch r.kind {
	case unix.PERF_RECORD_FORK: // pid, parent's pid, tid, parent's tid
		if parent := u32(4); parent != pid {
			ps[pid] = ps[parent]
		}
	case unix.PERF_RECORD_EXIT: // the same
		if pid == u32(8) {
			delete(ps, pid)
		}
	case unix.PERF_RECORD_COMM: // pid, tid, name
		if pid != u32(4) {
			return // another thread's name
		}
		next := Program{Comm: textOf(r.body[8:])}
		if before := ps[pid]; before != nil && r.misc&commOfExec == 0 {
			next.Exe, next.File = before.Exe, before.File
		}
		ps[pid] = &next
	case unix.PERF_RECORD_MMAP2:
		// The first mapping of a program is its executable.
		if m, ok := parseMapped(r.body); ok && ps[pid] != nil && ps[pid].Exe == "" {
			ps[pid] = &Program{Comm: ps[pid].Comm, Exe: m.Path, File: FileID{m.Dev, m.Inode}}
		}
	}
}

// textOf returns the NUL-terminated text in b.
func textOf(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
