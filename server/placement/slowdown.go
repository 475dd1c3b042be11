package placement

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"endoscope/planner/cost"
)

// slowdown is by how much longer what this process computes takes than it would with a
// processor of its own. Threads know for how long they ran and waited for a processor
// (/proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst):
//
//   - Of those that want one all the time that is the stretch. While there are none it
//     is not known; but the number of runnable threads of the machine is, and changes
//     as the stretch would. What a runnable thread means here was seen when both were
//     known: one on a processor that this process may not use holds nobody up.
//   - Those that sleep between short runs wait longer for what they run: of a slice of
//     another's they wait for the rest, however little they want. The stretch is no
//     more than theirs.
type slowdown struct {
	threads map[string]waited
	per     cost.Mean  // the stretch for each runnable thread
	all     [2]float64 // by how much longer all threads took, the last two times; 0: not known
}

// waited is for how long a thread ran, and waited for a processor that it could run
// on, and how often it ran.
type waited struct {
	ran, stood time.Duration
	times      int64
}

const (
	// Threads that are made to stop, and do not sleep, run for so long at a time: half
	// of the least slice of the kernel's (base_slice_ns, of one processor).
	atATime = 350 * time.Microsecond
	// wanting is what share of a processor they must have wanted for their waits to
	// tell, and telling is that of all threads.
	wanting, telling = 0.5, 0.01
	// often is how many waits tell how long they are.
	often = 20
)

func (w waited) plus(o waited) waited {
	return waited{w.ran + o.ran, w.stood + o.stood, w.times + o.times}
}

// known reports whether a stretch does not rest on a few long waits.
func (w waited) known() bool { return w.times >= often || w.stood <= w.ran }

// wanted is what share of a processor was wanted in d.
func (w waited) wanted(d time.Duration) float64 { return float64(w.ran+w.stood) / float64(d) }

// stretch is by how much longer it took than it ran.
func (w waited) stretch() float64 { return float64(w.ran+w.stood) / float64(w.ran) }

// hungry reports whether a thread ran until it was made to stop.
func (w waited) hungry() bool { return w.times == 0 || w.ran >= time.Duration(w.times)*atATime }

// observe notes what has happened in the last d, in which so many threads were runnable.
func (s *slowdown) observe(d time.Duration, runnable float64) {
	hungry, all := s.since()
	s.learn(hungry, all, d, runnable)
}

func (s *slowdown) learn(hungry, all waited, d time.Duration, runnable float64) {
	if all.ran > 0 && all.wanted(d) >= telling { // by many short runs: the last times tell
		s.all = [2]float64{all.stretch(), s.all[0]}
	}
	if hungry.ran > 0 && hungry.wanted(d) >= wanting && hungry.known() && runnable > 0 {
		s.per.Observe(hungry.stretch()/runnable, d)
	}
}

// at is the stretch where so many threads are runnable, and processors for some.
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

// since is for how long threads that were there the last time ran, and waited, since
// then: the hungry ones, and all.
func (s *slowdown) since() (hungry, all waited) {
	const dir = "/proc/self/task"
	tids, err := os.ReadDir(dir)
	if err != nil {
		return hungry, all
	}
	now := make(map[string]waited, len(tids))
	for _, t := range tids {
		text, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue // it has ended
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
		w := waited{total.ran - before.ran, total.stood - before.stood, total.times - before.times}
		all = all.plus(w)
		if w.hungry() {
			hungry = hungry.plus(w)
		}
	}
	s.threads = now
	return hungry, all
}

// parseSchedstat reads the three fields, of which the first two are in ns.
func parseSchedstat(text []byte) (w waited, ok bool) {
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
	return waited{time.Duration(n[0]), time.Duration(n[1]), n[2]}, true
}
