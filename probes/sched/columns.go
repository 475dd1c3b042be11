package sched

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/container"
	"endoscope/probes/process"
	"endoscope/probes/rows"
)

// The streams of this package.
const (
	ProcessStart = catalog.ProcessStart
	ProcessExec  = catalog.ProcessExec
	ProcessEnd   = catalog.ProcessEnd
	ThreadStart  = catalog.ThreadStart
	ThreadEnd    = catalog.ThreadEnd
)

// Threads contains starts, ends and renames of threads in one stream, in order,
// for other providers: column event is the kind of the row, thread_name the
// name from then on, and started the creation time of the thread, if known.
const Threads = "threads"

// Values of Threads.event. EXEC is an event of a process: only the executing
// thread continues, as the first.
const (
	Started = "START"
	Ended   = "END"
	Renamed = "RENAME"
	Exec    = "EXEC"
)

// named returns the Threads.event of a record.
func (l life) named() string {
	switch {
	case l.Event&threadStart != 0:
		return Started
	case l.Event&threadEnd != 0:
		return Ended
	case l.Event&threadRename != 0:
		return Renamed
	}
	return Exec
}

// Bits of bpf.LifeLife.Event (life.bpf.c).
const (
	processStart = 1 << iota
	processExec
	processEnd
	threadStart
	threadEnd
	threadRename
)

var events = map[string]uint32{
	ProcessStart: processStart, ProcessExec: processExec, ProcessEnd: processEnd,
	ThreadStart: threadStart, ThreadEnd: threadEnd,
	Threads: threadStart | threadEnd | threadRename | processExec,
}

// Bits of bpf.LifeLife.Cut.
const (
	cutPath = 1 << iota
	noArgv
)

// life is one record, as the kernel wrote it. It is valid only while it is
// passed on.
type life struct {
	*bpf.LifeLife
	names, args []byte
}

const lifeBytes = int(unsafe.Sizeof(bpf.LifeLife{}))

// decode decodes a record; false if it is malformed.
func decode(record []byte) (l life, ok bool) {
	if len(record) < lifeBytes {
		return l, false
	}
	l.LifeLife = (*bpf.LifeLife)(unsafe.Pointer(&record[0]))
	rest := record[lifeBytes:]
	if uint64(l.Path)+uint64(l.Argv) > uint64(len(rest)) {
		return l, false
	}
	l.names, l.args = rest[:l.Path], rest[l.Path:][:l.Argv]
	return l, true
}

// exe returns the path of the executable, "" if unknown.
func (l life) exe() string {
	if len(l.names) == 0 {
		return ""
	}
	names := strings.Split(strings.TrimSuffix(string(l.names), "\x00"), "\x00")
	var b strings.Builder
	if l.Cut&cutPath != 0 {
		b.WriteString("...")
	}
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(names[i])
	}
	return b.String()
}

// file returns the identity of the executable, zero if unknown.
func (l life) file() process.FileID {
	if l.Inode == 0 {
		return process.FileID{}
	}
	return process.FileID{Dev: unix.Mkdev(l.Device>>20, l.Device&(1<<20-1)), Inode: l.Inode}
}

// argv returns the list of arguments; nil if they could not be read.
func (l life) argv() any {
	if len(l.args) == 0 {
		return nil
	}
	text := strings.TrimSuffix(string(l.args), "\x00")
	out := make([]types.Value, 0, strings.Count(text, "\x00")+1)
	for arg := range strings.SplitSeq(text, "\x00") {
		out = append(out, types.Str(arg))
	}
	return out
}

// exit returns the status of an ended process or thread, as in wait(2): an exit
// code, or a signal.
func (l life) exit() (code int64, signal string) {
	s := unix.WaitStatus(l.Status)
	if !s.Signaled() {
		return int64(s.ExitStatus()), ""
	}
	if name := unix.SignalName(s.Signal()); name != "" {
		return 0, name
	}
	return 0, syscall.Signal(s.Signal()).String() // a real-time signal
}

// comm converts a name of the kernel.
func comm(c *[16]int8) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(c)), len(c))
	return unix.ByteSliceToString(b)
}

// columns define the columns of all streams. In a process's events tid and
// thread_name are those of its first thread, or of the one that executes or
// ends last. A new process has its parent's name, executable and arguments
// until it executes a program. exe is NULL if the kernel no longer has it: at
// ends, before Linux 6.16. argv is NULL if it cannot be read. Either exit_code
// or signal is NULL.
var columns = container.Extend(rows.Columns[life]{
	"timestamp":   rows.TimeOf(func(l *life) int64 { return int64(l.Time) }),
	"pid":         rows.Int(func(l *life) int64 { return int64(l.Pid) }),
	"tid":         rows.Int(func(l *life) int64 { return int64(l.Tid) }),
	"process":     rows.String(func(l *life) string { return comm(&l.Process) }),
	"thread_name": rows.String(func(l *life) string { return comm(&l.Thread) }),
	"exe":         rows.Text(func(l *life) string { return l.exe() }),
	"parent_pid":  rows.Int(func(l *life) int64 { return int64(l.ParentPid) }),
	"parent_tid":  rows.Int(func(l *life) int64 { return int64(l.ParentTid) }),
	"argv":        rows.List(func(l *life) any { return l.argv() }),
	"exit_code":   rows.IntOr(func(l *life) (int64, bool) { code, signal := l.exit(); return code, signal == "" }),
	"signal":      rows.Text(func(l *life) string { _, signal := l.exit(); return signal }),
	"duration":    rows.Int(func(l *life) int64 { return int64(l.Time - l.Start) }),
}, func(l *life) *container.Container { return process.ContainerOf(int(l.Pid)) })

// tables encode the streams of the catalog.
var tables = rows.NewTables([]string{ProcessStart, ProcessExec, ProcessEnd, ThreadStart, ThreadEnd}, columns)

// threads encodes Threads, which users cannot name.
var threads = func() *rows.Table[life] {
	of := maps.Clone(columns)
	of["event"] = rows.String(func(l *life) string { return l.named() })
	of["started"] = rows.TimeOf(func(l *life) int64 { return int64(l.Start) })
	s := &catalog.Stream{Name: Threads}
	s.Columns = append(slices.Clone(catalog.Must(ThreadStart).Columns),
		catalog.Column{Name: "event", Type: types.Varchar}, catalog.Column{Name: "started", Type: types.Timestamp})
	return rows.NewTableOf(s, of)
}()

// tableOf returns the table of a stream of this package.
func tableOf(stream string) *rows.Table[life] {
	if stream == Threads {
		return threads
	}
	return tables[stream]
}
