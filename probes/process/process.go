package process

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"endoscope/planner/plan"

	"golang.org/x/sys/unix"

	"endoscope/probes/clock"
)

// Process is a running process. PID and StartTime together identify it: the
// kernel reuses the pid but not the pair.
type Process struct {
	PID       int
	Comm      string // name of the leader, at most 15 bytes
	Exe       string // path of the executable as reported by the kernel, without " (deleted)"; "" if unknown
	StartTime uint64 // clock ticks since boot (field 22 of stat)
	Parent    int    // pid of its parent at the time of the look-up
}

// tick is the kernel's USER_HZ.
const tick = time.Second / 100

// Age returns the time since it was started.
func (p Process) Age() time.Duration {
	return time.Duration(clock.Boot()) - time.Duration(p.StartTime)*tick
}

// statBytes is enough for any stat file: 52 numbers of at most 20 digits and a
// name.
const statBytes = 1200

// Lookup returns the process pid, and whether it runs (false also for kernel
// threads and processes that have ended).
func Lookup(pid int) (Process, bool) {
	exe, none := readExe(pid)
	if none {
		return Process{}, false
	}
	var buf [statBytes]byte
	var s Stat
	if !readStat(pid, buf[:], &s) || s.Kernel() || s.Ended() {
		return Process{}, false
	}
	return Process{PID: pid, Comm: string(s.Comm), Exe: exe, StartTime: s.StartTime, Parent: s.Parent}, true
}

// List returns the processes that can be a target, by pid: all but kernel
// threads and processes that have ended.
func List() ([]Process, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	ps := make([]Process, 0, len(pids))
	for _, pid := range pids {
		if p, ok := Lookup(pid); ok {
			ps = append(ps, p)
		}
	}
	return ps, nil
}

// Executes reports whether p runs, and executes the program that it was seen with.
func Executes(p Process) bool {
	now, ok := Lookup(p.PID)
	return ok && now.StartTime == p.StartTime && now.Exe == p.Exe
}

// ListFor is List of the processes that v may observe.
func ListFor(v *plan.Viewer) ([]Process, error) {
	ps, err := List()
	if v.Everything() {
		return ps, err
	}
	return slices.DeleteFunc(ps, func(p Process) bool { return !Visible(v, p.PID) }), err
}

// pids lists /proc, ascending. It contains leaders only, no other threads.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out, nil
}

func readStat(pid int, buf []byte, s *Stat) bool {
	n := readFile(path(pid, "stat"), buf)
	return n > 0 && ParseStat(buf[:n], s)
}

// readFile reads at most len(buf) bytes of a small /proc file with one read and
// returns their number; 0 if it cannot be read.
func readFile(name string, buf []byte) int {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0
	}
	return n
}

func path(pid int, file string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + file
}

var deletedSuffix = []byte(" (deleted)")

// readExe returns the path of pid's executable, without the mark of a file that has
// been deleted or replaced since. A leader that has ended has no executable any
// more; its other threads still have it. none says that pid executes nothing: it is a
// kernel thread, or has ended with all its threads. Most entries of /proc are such ones, of
// which the stat file takes longer to read than both files here.
func readExe(pid int) (exe string, none bool) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(path(pid, "exe"), buf[:])
	if err == unix.ENOENT {
		var st unix.Stat_t
		if unix.Stat(path(pid, "task"), &st) != nil || st.Nlink <= 2+1 { // a folder for each thread
			return "", true
		}
		n, err = readThreadExe(pid, buf[:])
	}
	if err != nil {
		return "", false
	}
	return string(bytes.TrimSuffix(buf[:n], deletedSuffix)), false
}

func readThreadExe(pid int, buf []byte) (n int, err error) {
	entries, err := os.ReadDir(path(pid, "task"))
	if err != nil {
		return 0, err
	}
	err = unix.ENOENT
	for _, e := range entries {
		if n, err = unix.Readlink(path(pid, "task/"+e.Name()+"/exe"), buf); err == nil {
			break
		}
	}
	return n, err
}

// leader returns the process that thread tid belongs to, 0 if there is none.
func leader(tid int) int {
	var buf [1024]byte // contains Name, Umask, State and Tgid, the first lines of status
	b := buf[:readFile(path(tid, "status"), buf[:])]
	_, b, found := bytes.Cut(b, []byte("\nTgid:\t"))
	if !found {
		return 0
	}
	v, _ := number(b)
	return int(v)
}
