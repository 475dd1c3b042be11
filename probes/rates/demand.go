package rates

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// crowded is which part of the processors' time has to be taken for a
	// program to be held up by others, and crowdedTime how long is then watched
	// how much it is: the scheduler has given each its turn by then.
	crowded     = 0.8
	crowdedTime = 40 * time.Millisecond
	// maxThreads bounds how many threads are looked at: those of more are taken
	// not to wait.
	maxThreads = 1024
)

// schedule is what the scheduler has given a thread, in ns, and for how long it
// had to wait for that: /proc/PID/task/TID/schedstat.
type schedule struct {
	ran, waited int64
	runnable    bool // it runs, or waits for a processor
}

// schedules are those of all threads of processes, nil where they are too many.
// Those that have ended have none.
func schedules(pids []int) map[string]schedule {
	out := map[string]schedule{}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/task", pid)
		threads, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		if len(out)+len(threads) > maxThreads {
			return nil
		}
		for _, t := range threads {
			var s schedule
			b, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
			if err != nil {
				continue
			}
			if _, err := fmt.Sscan(string(b), &s.ran, &s.waited); err != nil {
				continue
			}
			stat, _ := os.ReadFile(dir + "/" + t.Name() + "/stat")
			// The name before the state is in brackets, and may have any in it.
			s.runnable = strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " R")
			out[t.Name()] = s
		}
	}
	return out
}

// demand is how many processors were used or waited for between two looks at
// the schedules. The scheduler counts a wait when it ends: a thread may seem to
// want more than one processor, which cannot be, or, if it waited all the time,
// none.
func demand(before, after map[string]schedule, took time.Duration) (processors float64) {
	for tid, a := range after {
		b := before[tid]
		if a == b && a.runnable {
			processors++
			continue
		}
		processors += min(1, float64(a.ran-b.ran+a.waited-b.waited)/float64(took))
	}
	return processors
}
