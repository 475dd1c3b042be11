package process

import (
	"bytes"
	"os"
	"strconv"
)

// Threads lists the threads of a process.
func Threads(pid int) (tids []int, err error) {
	entries, err := os.ReadDir(path(pid, "task"))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// ReadThread reads a file of a thread in /proc.
func ReadThread(pid, tid int, name string) ([]byte, error) {
	return os.ReadFile(path(pid, "task/"+strconv.Itoa(tid)+"/"+name))
}

// ReadThreadStat reads the stat file of a thread; false if it has ended.
func ReadThreadStat(pid, tid int, s *Stat) bool {
	b, err := ReadThread(pid, tid, "stat")
	return err == nil && ParseStat(b, s)
}

// ThreadRuns returns a thread's CPU time in ns, which the kernel updates at ticks, and
// how often it was given a CPU, which changes as it begins to run (0 in kernels without
// CONFIG_SCHED_INFO); false if it has ended.
func ThreadRuns(pid, tid int) (ns, runs int64, ok bool) {
	b, err := ReadThread(pid, tid, "schedstat")
	if err != nil {
		return 0, 0, false
	}
	ns, rest := number(b)
	_, last := number(bytes.TrimPrefix(rest, []byte(" "))) // the time it waited for a CPU
	runs, _ = number(bytes.TrimPrefix(last, []byte(" ")))
	return ns, runs, len(rest) < len(b)
}
