package stack

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"
	"unsafe"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/stack/pacing"
	"endoscope/probes/unwind"
)

// thread is what is known about a thread since its last sample.
type thread struct {
	start uint64 // with the tid, its identity
	seen  uint64 // the last snapshot that contains it
	name  string
	state state
	// runnable: it was on a CPU or waited for one.
	runnable bool
	nr       int64 // system call, -1: none
	stack    *callStack
	cause    cause // why stack does not reach the thread's first function
	room     room  // the bytes of its stack to copy with a sample
	// key is that of the context it is inside of, as its bytes.
	key    string
	inside bool
}

// observation is a thread at an instant.
type observation struct {
	*thread
	process   *process.Process
	tid       uint32
	goroutine uint64 // if it is a goroutine without a thread, which then has no tid; else 0
	time      uint64 // boot clock
}

// collector takes snapshots: one sample of each thread of its processes. It is
// used by one goroutine at a time.
type collector struct {
	kernel    *sampler
	modules   *modules
	frames    *interner
	unwinder  *unwinder
	targets   *targets
	spaces    map[int]*space
	threads   map[uint32]*thread
	snapshot  uint64
	java      string // how the stacks of Java programs are obtained: a value of SET java_stacks
	resamples []resample
	pids      []int            // processes to sample in this attempt
	current   observation      // the observation being visited
	javaTime  time.Duration    // CPU time that Java machines used to answer
	priority  *pacing.Priority // of the thread that takes snapshots; nil: unchanged
	context   *plan.Context    // that the rows tell; nil: none
	noted     map[uint64]noted // of goroutines of the process being visited, by g

	tally
}

// tally counts threads without an observation, and incomplete stacks.
type tally struct {
	missed     uint64            // switched between running and waiting whenever they were sampled
	compat     uint64            // were in 32-bit code
	parked     uint64            // goroutines that moved while they were read
	undumped   uint64            // requests that a Java machine did not answer
	unfinished [numCauses]uint64 // observations whose stacks do not reach the first function
}

// resample is a thread that must be sampled again in the same snapshot.
type resample struct {
	pid int
	tid uint32
}

// retries bounds how often a thread is sampled again that was running when its process
// was sampled, and waiting when its CPU was.
const retries = 4

// snapshotThreads calls visit with an observation of every thread.
func (c *collector) snapshotThreads(visit func(*observation)) error {
	c.snapshot++
	var failed error
	if err := c.targets.refresh(); err != nil {
		return err
	}
	for pid := range c.spaces {
		if c.targets.running[pid] == nil {
			c.forget(pid)
		}
	}
	for pid, p := range c.targets.running {
		if sp := c.spaces[pid]; sp != nil {
			sp.process = *p
			continue
		}
		if err := c.kernel.add(pid); err != nil {
			continue // it has ended: refresh will detect that
		}
		sp := &space{process: *p}
		c.spaces[pid] = sp
		if err := c.openJava(sp); err != nil {
			if c.snapshot == 1 {
				failed = errors.Join(failed, err)
			}
			c.undumped++ // it started later, or has executed another program
		}
	}
	if failed != nil {
		return failed
	}
	c.dump()
	handle := func(s sample) {
		if c.observe(s) {
			visit(&c.current)
		}
	}
	c.pids = c.pids[:0]
	for pid := range c.spaces {
		c.pids = append(c.pids, pid)
	}
	for attempt := 0; len(c.pids) > 0 && attempt < retries; attempt++ {
		c.resamples = c.resamples[:0]
		if err := c.kernel.running(); err != nil {
			return err
		}
		for _, pid := range c.pids {
			if err := c.kernel.waiting(pid, handle); err != nil {
				failed = err
			}
		}
		c.priority.Lower() // the remaining work uses data already copied
		c.kernel.drain(handle)
		c.pids = c.pids[:0]
		for _, t := range c.resamples {
			if !slices.Contains(c.pids, t.pid) {
				c.pids = append(c.pids, t.pid)
			}
		}
	}
	slices.SortFunc(c.resamples, func(a, b resample) int { return cmp.Compare(a.tid, b.tid) })
	for _, t := range slices.Compact(c.resamples) { // an earlier attempt may have sampled it
		if c.threads[t.tid].seen != c.snapshot {
			c.missed++
		}
	}
	for _, sp := range c.spaces {
		c.goroutines(sp, visit)
	}
	c.sweep()
	return failed
}

// forget ends the observation of a process.
func (c *collector) forget(pid int) {
	c.kernel.remove(pid)
	if j := c.spaces[pid].java; j != nil {
		j.machine.Close()
	}
	delete(c.spaces, pid)
}

// sweep removes ended threads when they are as many as the living ones.
func (c *collector) sweep() {
	living := 0
	for _, t := range c.threads {
		if t.seen == c.snapshot {
			living++
		}
	}
	if len(c.threads) < 2*living+64 {
		return
	}
	for tid, t := range c.threads {
		if t.seen != c.snapshot {
			delete(c.threads, tid)
			c.kernel.forget(tid)
		}
	}
}

// observe makes a sample the current observation, if its thread is not in this
// snapshot yet.
func (c *collector) observe(s sample) bool {
	sp := c.spaces[int(s.Tgid)]
	if sp == nil {
		return false
	}
	t := c.threads[s.Tid]
	if t == nil || t.start != s.Start {
		t = &thread{start: s.Start}
		c.threads[s.Tid] = t
	}
	fresh := t.seen != c.snapshot
	switch {
	case c.observeJava(sp, t, s):
	case s.Flags&(running|torn) != 0:
		if fresh {
			c.resamples = append(c.resamples, resample{int(s.Tgid), s.Tid})
		}
		return false
	case s.Flags&compat != 0:
		c.compat++
		t.seen = c.snapshot
		return false
	case s.Flags&unchanged == 0:
		if !c.unwind(sp, t, s) {
			c.resamples = append(c.resamples, resample{int(s.Tgid), s.Tid})
			return false
		}
	}
	if !fresh || t.stack == nil {
		return false
	}
	t.seen = c.snapshot
	t.runnable = s.State == 0 || s.Flags&onCPU != 0 // TASK_RUNNING of include/linux/sched.h
	if t.cause != reached {
		c.unfinished[t.cause]++
	}
	c.current = observation{thread: t, process: &sp.process, tid: s.Tid, time: s.Time}
	return true
}

// unwind updates t from a sample; it returns false if the data read is inconsistent.
// Memory that was not copied with the sample is read later: it is unchanged if the
// thread has not run since.
func (c *collector) unwind(sp *space, t *thread, s sample) bool {
	why := c.unwinder.unwind(sp, s, true)
	if c.unwinder.beyond && (s.Flags&onCPU != 0 || !hasNotRun(s)) {
		if !t.room.full() {
			c.copy(t, s.Tid, maxBytes)
			return false
		}
		why = c.unwinder.unwind(sp, s, false)
	}
	c.copy(t, s.Tid, t.room.next(c.unwinder.used(), c.unwinder.beyond))
	unwound := why
	why, gil, ok := c.interpreted(sp, s, why)
	if !ok {
		return false
	}
	if c.context != nil {
		c.noteContext(t, s.inside, s.Contexts, s.Regs[unwind.RegSP], s.Top, unwound)
	}
	t.stack = c.frames.stack(c.unwinder.frames, why == reached)
	t.cause = why
	if name := comm(&s.Comm); string(name) != t.name {
		t.name = string(name)
	}
	t.state, t.nr = stateOf(s.StackSample, t.stack.sync), s.Syscall
	if gil {
		t.state = stateBlocked
	}
	return true
}

// copy sets the number of bytes of a thread's stack that are copied from now on.
func (c *collector) copy(t *thread, tid, bytes uint32) {
	if bytes != t.room.size() && c.kernel.setBytes(tid, bytes) == nil {
		t.room.bytes = bytes
	}
}

// hasNotRun reports whether a thread that was not on a CPU when it was sampled has not
// been on one since.
func hasNotRun(s sample) bool {
	ran, runs, ok := process.ThreadRuns(int(s.Tgid), int(s.Tid))
	return ok && uint64(ran) == s.Runtime && uint64(runs) == s.Runs
}

// comm returns a thread's name as stored by the kernel, without its terminator.
func comm(c *[16]int8) []byte {
	b := (*[16]byte)(unsafe.Pointer(c))[:]
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return b
}
