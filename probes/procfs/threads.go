package procfs

import (
	"strconv"

	"endoscope/planner/catalog"
	"endoscope/probes/clock"
	"endoscope/probes/container"
	"endoscope/probes/process"
)

// Positions of the columns.
var (
	threadTime      = catalog.Position(catalog.ThreadUsage, "timestamp")
	threadPID       = catalog.Position(catalog.ThreadUsage, "pid")
	threadTID       = catalog.Position(catalog.ThreadUsage, "tid")
	threadProcess   = catalog.Position(catalog.ThreadUsage, "process")
	threadName      = catalog.Position(catalog.ThreadUsage, "thread_name")
	threadContained = catalog.Positions(catalog.ThreadUsage, container.Columns...)
	threadExe       = catalog.Position(catalog.ThreadUsage, "exe")
	threadCPU       = catalog.Position(catalog.ThreadUsage, "percent_cpu")
	threadState     = catalog.Position(catalog.ThreadUsage, "state")
	threadRunDelay  = catalog.Position(catalog.ThreadUsage, "run_delay")
)

// thread is what the sampler keeps of a thread between samples.
type thread struct {
	name  string
	stat  file
	sched file
	cpu   history[uint64]
	seen  int64 // the last sample that contained it
}

// threadSet is the threads of a process.
type threadSet struct {
	byTID   map[int]*thread
	scanned int64 // boot clock of the last scan; 0: none
}

// threadSampler reads /proc/PID/task/TID/stat of each thread and, if CPU time
// or run delay are requested, its schedstat, which counts in ns
// (Documentation/scheduler/sched-stats.rst).
type threadSampler struct {
	targets *targets
	window  window
	sets    map[*observed]*threadSet
	buf     []byte
	sched   bool
}

func newThreadSampler(w window, ts func(gone func(*observed)) *targets, out *output) *threadSampler {
	s := &threadSampler{
		window: w, sets: map[*observed]*threadSet{}, buf: make([]byte, 4096),
		sched: out.wants(threadCPU) || out.wants(threadRunDelay),
	}
	s.targets = ts(func(o *observed) {
		if set := s.sets[o]; set != nil {
			for _, th := range set.byTID {
				th.close()
			}
			delete(s.sets, o)
		}
	})
	return s
}

// dropHistory implements forgetful.
func (s *threadSampler) dropHistory() {
	for _, set := range s.sets {
		set.scanned = 0
		for _, th := range set.byTID {
			th.cpu = history[uint64]{}
		}
	}
}

func (th *thread) close() {
	th.stat.close()
	th.sched.close()
}

func (s *threadSampler) sample(at int64, out *output) error {
	if err := s.targets.refresh(); err != nil {
		return err
	}
	s.targets.retain(func(o *observed) bool { return s.process(at, o, out) })
	return nil
}

// process emits a row for each thread of o; false if o has ended.
func (s *threadSampler) process(at int64, o *observed, out *output) bool {
	set := s.sets[o]
	if set == nil {
		set = &threadSet{byTID: map[int]*thread{}, scanned: o.fresh}
		s.sets[o] = set
	}
	// A thread that did not exist at the last scan had used no CPU time then.
	before := set.scanned
	set.scanned = clock.Boot()
	alive := 0
	err := o.tids(func(tid int) {
		th := set.byTID[tid]
		if th == nil {
			dir := "task/" + strconv.Itoa(tid)
			th = &thread{
				stat:  newFile(o.dir, dir+"/stat", &s.targets.budget),
				sched: newFile(o.dir, dir+"/schedstat", &s.targets.budget),
			}
			if before > 0 {
				th.cpu.base(s.window, before, 0)
			}
			set.byTID[tid] = th
		}
		if s.row(at, o, tid, th, out) {
			th.seen = at
			alive++
		}
	})
	if len(set.byTID) > alive {
		for tid, th := range set.byTID {
			if th.seen != at {
				th.close()
				delete(set.byTID, tid)
			}
		}
	}
	return err == nil && alive > 0
}

// row reads a thread; false if it has ended.
func (s *threadSampler) row(at int64, o *observed, tid int, th *thread, out *output) bool {
	b, err := th.stat.read(&s.buf)
	var stat process.Stat
	if err != nil || !process.ParseStat(b, &stat) || stat.State == 'X' || stat.State == 'Z' {
		return false
	}
	if string(stat.Comm) != th.name {
		th.name = string(stat.Comm)
	}
	out.int(threadTime, at)
	out.int(threadPID, int64(o.PID))
	out.int(threadTID, int64(tid))
	out.str(threadProcess, o.Comm)
	out.str(threadName, th.name)
	if o.Exe != "" {
		out.str(threadExe, o.Exe)
	}
	out.container(threadContained, o.PID)
	out.str(threadState, letters[stat.State:stat.State+1])
	if s.sched {
		if b, err := th.sched.read(&s.buf); err == nil {
			t := text(b)
			used, delay := t.count(), t.count()
			now := clock.Boot()
			if since, then, ok := th.cpu.base(s.window, now, used); ok && now > since {
				out.float(threadCPU, 100*grown(then, used)/float64(now-since))
			}
			out.count(threadRunDelay, delay)
		}
	}
	out.emit()
	return true
}

// letters has every byte at its own index, so that a state's letter is a string
// without allocation.
var letters = func() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

func (s *threadSampler) close() { s.targets.close() }
