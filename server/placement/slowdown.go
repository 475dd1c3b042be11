package placement

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"endoscope/planner/cost"
)

// slowdown estimates the stretch: by what factor this process' work takes
// longer than it would with a processor of its own. The kernel reports for how
// long each thread ran and waited for a processor
// (/proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst):
//
//   - For threads that are always runnable, (ran + waited) / ran is the stretch. While
//     there are none it is unknown; but the number of runnable threads of the machine
//     is known, and changes in proportion. The stretch per runnable thread was learned
//     when both were known: a thread on a processor that this process may not use
//     delays nobody.
//   - Threads that sleep between short runs wait longer in proportion: they wait for the
//     rest of another thread's slice, however short their runs. Their stretch is
//     therefore an upper bound.
type slowdown struct {
	threads map[string]runTimes
	per     cost.Mean  // the stretch for each runnable thread
	all     [2]float64 // stretch of all threads, the last two times; 0: unknown
}

// runTimes holds how long a thread ran, how long it waited for a processor while
// runnable, and how often it ran.
type runTimes struct {
	ran, delayed time.Duration
	times        int64
}

const (
	// A thread that is preempted and does not sleep runs for at least so long
	// at a time: half of the kernel's minimum slice (base_slice_ns, of one
	// processor).
	minRun = 350 * time.Microsecond
	// minBusyShare is the share of a processor that busy threads must have demanded
	// for their waits to be significant; telling is that for all threads.
	minBusyShare, minShare = 0.5, 0.01
	// minWaits is the number of waits that is significant.
	minWaits = 20
)

func (w runTimes) add(o runTimes) runTimes {
	return runTimes{w.ran + o.ran, w.delayed + o.delayed, w.times + o.times}
}

// known reports whether the stretch is significant, and does not result from a
// few long waits.
func (w runTimes) known() bool { return w.times >= minWaits || w.delayed <= w.ran }

// wanted returns the share of a processor that was demanded in d.
func (w runTimes) wanted(d time.Duration) float64 { return float64(w.ran+w.delayed) / float64(d) }

// stretch returns the ratio of elapsed time, waits included, to running time.
func (w runTimes) stretch() float64 { return float64(w.ran+w.delayed) / float64(w.ran) }

// busy reports whether a thread ran until it was preempted.
func (w runTimes) busy() bool { return w.times == 0 || w.ran >= time.Duration(w.times)*minRun }

// observe records the last interval d, in which so many threads were runnable.
func (s *slowdown) observe(d time.Duration, runnable float64) {
	busy, all := s.since()
	s.learn(busy, all, d, runnable)
}

func (s *slowdown) learn(busy, all runTimes, d time.Duration, runnable float64) {
	if all.ran > 0 && all.wanted(d) >= minShare { // by many short runs: the last readings count
		s.all = [2]float64{all.stretch(), s.all[0]}
	}
	if busy.ran > 0 && busy.wanted(d) >= minBusyShare && busy.known() && runnable > 0 {
		s.per.Observe(busy.stretch()/runnable, d)
	}
}

// at returns the stretch for a number of runnable threads and of processors.
func (s *slowdown) at(runnable float64, processors int) float64 {
	by := runnable / float64(processors)
	if s.per.Confidence() > 0 {
		by = runnable * s.per.Value()
	}
	if most := max(s.all[0], s.all[1]); most > 0 {
		by = min(by, most)
	}
	return max(1, by)
}

// since returns how long the threads that existed at the last reading ran and
// waited since then: the busy ones, and all.
func (s *slowdown) since() (busy, all runTimes) {
	const dir = "/proc/self/task"
	tids, err := os.ReadDir(dir)
	if err != nil {
		return busy, all
	}
	now := make(map[string]runTimes, len(tids))
	for _, t := range tids {
		text, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue // the thread has exited
		}
		total, ok := parseSchedstat(text)
		if !ok {
			continue
		}
		now[t.Name()] = total
		before, ok := s.threads[t.Name()]
		if !ok {
			continue
		}
		w := runTimes{total.ran - before.ran, total.delayed - before.delayed, total.times - before.times}
		all = all.add(w)
		if w.busy() {
			busy = busy.add(w)
		}
	}
	s.threads = now
	return busy, all
}

// parseSchedstat parses the three fields; the first two are in ns.
func parseSchedstat(text []byte) (w runTimes, ok bool) {
	fields := bytes.Fields(text)
	if len(fields) < 3 {
		return w, false
	}
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(string(fields[i]), 10, 64); err != nil {
			return w, false
		}
	}
	return runTimes{time.Duration(n[0]), time.Duration(n[1]), n[2]}, true
}
