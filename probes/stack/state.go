package stack

import (
	"strings"

	"endoscope/probes/bpf"
	"endoscope/probes/elf"
)

// state is what a thread was doing (Reiss, section 4, with a fourth state added).
type state uint8

const (
	stateRun     state = iota // on a CPU or waiting for one, in user mode or in any other system call
	stateWait                 // waiting for something to happen
	stateIO                   // reading, writing or establishing what is read and written; paging in
	stateBlocked              // kept from running by a lock that another thread holds, or stopped
)

// String returns the state as a row shows it.
func (s state) String() string { return [...]string{"RUN", "WAIT", "IO", "BLOCKED"}[s] }

// Bits of task_struct.__state (include/linux/sched.h).
const (
	taskUninterruptible = 0x2
	taskStopped         = 0x4
	taskTraced          = 0x8
)

// System calls and futex operations that are examined further.
const (
	sysFutex   = 202
	sysRestart = 219

	futexCommand = 0x7f // the other bits are flags
	futexWait    = 0
	futexLockPI  = 6
	futexBitset  = 9
	futexRequeue = 11
	futexLockPI2 = 13
)

// kinds gives the state for each system call; the others are RUN.
var kinds = func() (k [len(syscallNames)]state) {
	of := map[string]state{}
	for _, name := range waits {
		of[name] = stateWait
	}
	for _, name := range transfers {
		of[name] = stateIO
	}
	for n, name := range syscallNames {
		k[n] = of[name]
	}
	return k
}()

// stateOf classifies a sample. sync is the synchronisation found in its frames.
func stateOf(s *bpf.StackSample, sync syncKind) state {
	if s.State&(taskStopped|taskTraced) != 0 {
		return stateBlocked
	}
	switch nr := s.Syscall; {
	case nr < 0:
		if s.State&taskUninterruptible != 0 {
			return stateIO // a page fault that reads
		}
		return stateRun
	case nr == sysFutex:
		switch s.Regs[4] & futexCommand {
		case futexLockPI, futexLockPI2:
			return stateBlocked
		case futexWait, futexBitset, futexRequeue:
		default:
			return stateRun // it wakes others
		}
		if sync == syncLock {
			return stateBlocked
		}
		return stateWait
	case nr == sysRestart && sync == syncLock:
		return stateBlocked
	case nr < int64(len(kinds)):
		return kinds[nr]
	}
	return stateRun
}

// syscallName returns the name of a system call, "" if it is unknown.
func syscallName(nr int64) string {
	if nr < 0 || nr >= int64(len(syscallNames)) {
		return ""
	}
	return syscallNames[nr]
}

// syncKind is the kind of synchronisation of a function that sleeps in futex.
type syncKind uint8

const (
	syncNone syncKind = iota
	syncLock          // takes a lock
	syncWait          // waits for a condition, a semaphore, a thread
)

// Parts of the names of functions that sleep in futex. If several are on the stack,
// the innermost counts: a condition variable locks its mutex again.
var (
	lockFunctions = []string{
		"pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "pthread_rwlock_", "lll_lock_wait", "lll_mutex_lock", "pthread_once", "call_once",
		"cxa_guard_acquire", "std::mutex", "std::shared_mutex", "parking_lot::raw_mutex", "parking_lot::raw_rwlock", "sys::sync::mutex", "sys::sync::rwlock", "sys::sync::once",
		"absl::Mutex::Lock", "ObjectMonitor::enter", "ObjectMonitor::EnterI", "Mutex::lock", "take_gil", "uv_mutex_lock", "uv_rwlock", "runtime.lock2",
	}
	waitFunctions = []string{
		"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "sem_wait", "sem_timedwait", "sem_clockwait", "new_sem_wait",
		"pthread_join", "pthread_clockjoin", "pthread_timedjoin", "pthread_tryjoin", "pthread_barrier", "ObjectMonitor::wait", "Parker::park", "Unsafe_Park", "JavaThread::sleep",
	}
)

func syncOfFunction(f elf.Function) syncKind {
	for _, names := range append([]string{f.Name}, f.Aliases...) {
		for _, part := range lockFunctions {
			if strings.Contains(names, part) {
				return syncLock
			}
		}
		for _, part := range waitFunctions {
			if strings.Contains(names, part) {
				return syncWait
			}
		}
	}
	return syncNone
}

// syncDepth bounds the distance of a lock's function from the system call, in frames.
const syncDepth = 16

// syncOf returns the kind of the innermost synchronising function of a stack. A user's
// function that is not one itself ends the search: its callers hold no lock that it
// waits for. Where a virtual machine parks a thread, the kind is known only from the
// method that requested it.
func (in *interner) syncOf(frames []uint32) (sync syncKind) {
	for i, n := range frames[:min(len(frames), syncDepth)] {
		f := &in.frames[n]
		if f.sync != syncNone && f.module == compiledModule {
			return f.sync
		}
		if sync == syncNone {
			sync = f.sync
		}
		if i > 0 && !f.system {
			break
		}
	}
	return sync
}
