package process

import (
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

// ThreadTime returns the CPU time of a thread in ns; false if it has ended.
func ThreadTime(pid, tid int) (ns int64, ok bool) {
	b, err := ReadThread(pid, tid, "schedstat")
	if err != nil {
		return 0, false
	}
	ns, rest := number(b)
	return ns, len(rest) < len(b)
}
