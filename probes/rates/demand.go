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
// /proc/PID/task/TID/schedstat. The kernel adds a wait when it ends.
type schedule struct {
	ran, waited int64
	runnable    bool   // it runs, or waits for a processor
	slept       string // how often it has waited for something else, of a runnable thread
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
			if strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " R") {
				status, _ := os.ReadFile(dir + "/" + t.Name() + "/status")
				_, after, found := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
				s.slept, _, _ = strings.Cut(after, "\n")
				s.runnable = found
			}
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
		busiest = max(busiest, a.since(b, took))
	}
	return used, busiest
}

// since returns the share of the time in which a thread ran or waited for a processor, since a
// reading took ago. A thread that was runnable then and is now, and has not slept, was so all the
// time: its current wait is not counted yet, and its last one may have begun earlier.
func (s schedule) since(before schedule, took time.Duration) float64 {
	if s.runnable && before.runnable && s.slept == before.slept {
		return 1
	}
	return min(1, float64(s.ran-before.ran+s.waited-before.waited)/float64(took))
}

// demand returns how many processors were used or waited for between two
// readings of the schedules.
func demand(before, after map[string]schedule, took time.Duration) (processors float64) {
	for tid, a := range after {
		processors += a.since(before[tid], took)
	}
	return processors
}
