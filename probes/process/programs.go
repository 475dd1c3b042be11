package process

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Program is what a process executes: what can be said of it when it has ended.
type Program struct {
	Comm string
	Exe  string // path, as the process sees it; "": it is not known
	File FileID // as maps tells it, or as stat does
}

// programs are those of the processes that run, by pid, as far as the kernel has told
// by records of perf_event_open(2). A Program is not changed once it is there.
type programs map[int]*Program

// running are the programs of the processes that are there.
func running() programs {
	ps := programs{}
	list, _ := List() // without it what starts later is known all the same
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

// In a PERF_RECORD_COMM: the name is that of a program that begins.
const commOfExec = 1 << 13

// note notes what a record tells of a process; nothing where ps is nil.
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
			return // a thread's
		}
		next := Program{Comm: textOf(r.body[8:])}
		if before := ps[pid]; before != nil && r.misc&commOfExec == 0 {
			next.Exe, next.File = before.Exe, before.File
		}
		ps[pid] = &next
	case unix.PERF_RECORD_MMAP2:
		// The first that a program maps is itself.
		if m, ok := parseMapped(r.body); ok && ps[pid] != nil && ps[pid].Exe == "" {
			ps[pid] = &Program{Comm: ps[pid].Comm, Exe: m.Path, File: FileID{m.Dev, m.Inode}}
		}
	}
}

// textOf is a text that ends with a zero byte.
func textOf(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
