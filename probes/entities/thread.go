package entities

import "endoscope/probes/process"

// taskThread is a thread as in /proc.
type taskThread struct {
	tid   int
	name  string
	ticks uint64
}

// threadsOf lists the threads of a process.
func threadsOf(pid int) []taskThread {
	tids, _ := process.Threads(pid) // none if it has ended
	var out []taskThread
	for _, tid := range tids {
		if name, ticks, ok := lookAt(pid, tid); ok {
			out = append(out, taskThread{tid, name, ticks})
		}
	}
	return out
}

// lookAt returns the name of a thread and its creation time.
func lookAt(pid, tid int) (name string, ticks uint64, ok bool) {
	var st process.Stat
	if !process.ReadThreadStat(pid, tid, &st) || st.State == 'X' || st.State == 'Z' && tid != pid {
		return "", 0, false
	}
	return string(st.Comm), st.StartTime, true
}

// nameOf returns the name of a process and its executable.
func nameOf(pid int) (name, exe string) {
	p, _ := process.Lookup(pid)
	return p.Comm, p.Exe
}
