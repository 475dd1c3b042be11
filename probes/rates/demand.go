package rates

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// crowded is the share of busy processor time from which a program may be
	// delayed by others, and crowdedTime how long its waits are then observed:
	// long enough for every thread to be scheduled.
	crowded     = 0.8
	crowdedTime = 40 * time.Millisecond
	// maxThreads limits the threads examined: with more, none is assumed to
	// wait.
	maxThreads = 1024
)

// schedule is the run time and the wait time of a thread, in ns:
// /proc/PID/task/TID/schedstat.
type schedule struct {
	ran, waited int64
	runnable    bool // it runs, or waits for a processor
}

// schedules returns the schedules of all threads of processes, nil if they are
// too many. Threads that have ended have none.
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
			// The name before the state is in parentheses, and may contain
			// some.
			s.runnable = strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " R")
			out[t.Name()] = s
		}
	}
	return out
}

// waits reports whether a thread of processes runs or waits for a processor.
func waits(pids []int) bool {
	for _, s := range schedules(pids) {
		if s.runnable {
			return true
		}
	}
	return false
}

// Schedules are the schedules of threads, by thread id.
type Schedules map[string]schedule

// ReadSchedules returns the schedules of all threads of processes, nil if they are too
// many.
func ReadSchedules(pids []int) Schedules { return schedules(pids) }

// Since returns how many processors the threads used since a reading took ago, and the
// largest share of the time in which one of them ran or waited for a processor: at 1, the
// thread would do more if it were given more time.
func (s Schedules) Since(before Schedules, took time.Duration) (used, busiest float64) {
	for tid, a := range s {
		b, known := before[tid]
		if !known {
			continue // it began meanwhile
		}
		used += float64(a.ran-b.ran) / float64(took)
		busy := float64(a.ran-b.ran+a.waited-b.waited) / float64(took)
		if a == b && a.runnable {
			busy = 1
		}
		busiest = max(busiest, min(1, busy))
	}
	return used, busiest
}

// demand returns how many processors were used or waited for between two
// readings of the schedules. The scheduler counts a wait when it ends: a thread
// may appear to want more than one processor, which is impossible, or, if it
// waited all the time, none.
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
