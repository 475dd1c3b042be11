package sched

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
)

// The streams of this package.
const (
	ProcessStart = "process_start"
	ProcessExec  = "process_exec"
	ProcessEnd   = "process_end"
	ThreadStart  = "thread_start"
	ThreadEnd    = "thread_end"
)

// Threads has all there is of threads in one stream, in order, for other
// providers: its column event says what a row is, thread_name is the name from
// then on, and started is when the thread was made, as far as that is known.
const Threads = "threads"

// What Threads.event says. EXEC is of a process: of its threads only the first
// goes on.
const (
	Started = "START"
	Ended   = "END"
	Renamed = "RENAME"
	Exec    = "EXEC"
)

// named is what Threads calls a record.
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

// life is one record, as the kernel wrote it. It is valid only while it is given.
type life struct {
	*bpf.LifeLife
	names, args []byte
}

const lifeBytes = int(unsafe.Sizeof(bpf.LifeLife{}))

// decode reads a record; false if it is not one.
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

// exe is the path of the executable: "" if it is not known.
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

// file is which file the executable is; nothing if it is not known.
func (l life) file() process.FileID {
	if l.Inode == 0 {
		return process.FileID{}
	}
	return process.FileID{Dev: unix.Mkdev(l.Device>>20, l.Device&(1<<20-1)), Inode: l.Inode}
}

// argv are the arguments; nil if there are none to be had.
func (l life) argv() []types.Value {
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

// exit is with what a process or thread ended, as wait(2) tells it: of its own
// accord with a code, or by a signal.
func (l life) exit() (code int64, signal string) {
	s := unix.WaitStatus(l.Status)
	if !s.Signaled() {
		return int64(s.ExitStatus()), ""
	}
	if name := unix.SignalName(s.Signal()); name != "" {
		return 0, name
	}
	return 0, syscall.Signal(s.Signal()).String() // a realtime one
}

// comm is a name as the kernel keeps it.
func comm(c *[16]int8) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(c)), len(c))
	return unix.ByteSliceToString(b)
}

// rows makes batches of records.
type rows struct {
	batch.Filler
	names  []string // of the columns
	offset int64    // from the boot clock to the epoch
}

func newRows(spec *plan.Acquire, offset int64) *rows {
	r := &rows{offset: offset}
	for _, f := range spec.Out.Fields {
		r.names = append(r.names, f.Name)
	}
	r.Filler = batch.NewFiller(spec.Out.Types())
	return r
}

// add makes a row.
func (r *rows) add(l life) {
	b := r.Row()
	for i, name := range r.names {
		c := &b.Cols[i]
		switch name {
		case "timestamp":
			c.Int = append(c.Int, int64(l.Time)+r.offset)
		case "pid":
			c.Int = append(c.Int, int64(l.Pid))
		case "tid":
			c.Int = append(c.Int, int64(l.Tid))
		case "process":
			c.Code = append(c.Code, c.Dict.Code(comm(&l.Process)))
		case "thread_name":
			c.Code = append(c.Code, c.Dict.Code(comm(&l.Thread)))
		case "exe":
			r.Text(c, l.exe())
		case "event":
			c.Code = append(c.Code, c.Dict.Code(l.named()))
		case "started":
			c.Int = append(c.Int, int64(l.Start)+r.offset)
		case "parent_pid":
			c.Int = append(c.Int, int64(l.ParentPid))
		case "parent_tid":
			c.Int = append(c.Int, int64(l.ParentTid))
		case "argv":
			argv := l.argv()
			if argv == nil {
				c.Nulls.Set(b.N)
			}
			c.Any = append(c.Any, argv)
		case "exit_code":
			code, signal := l.exit()
			if signal != "" {
				c.Nulls.Set(b.N)
			}
			c.Int = append(c.Int, code)
		case "signal":
			_, signal := l.exit()
			r.Text(c, signal)
		case "duration":
			c.Int = append(c.Int, int64(l.Time-l.Start))
		}
	}
	r.Done()
}
