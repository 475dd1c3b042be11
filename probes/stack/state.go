package stack

import (
	"strings"

	"endoscope/probes/bpf"
	"endoscope/probes/elf"
)

// state is what a thread was doing (Reiss, section 4, and a fourth).
type state uint8

const (
	stateRun     state = iota // on a CPU or waiting for one, in user mode or in any other system call
	stateWait                 // waiting for something to happen
	stateIO                   // reading, writing or establishing what is read and written; paging in
	stateBlocked              // kept from running by a lock that another thread holds, or stopped
)

// String is the state as a row names it.
func (s state) String() string { return [...]string{"RUN", "WAIT", "IO", "BLOCKED"}[s] }

// Bits of task_struct.__state (include/linux/sched.h).
const (
	taskUninterruptible = 0x2
	taskStopped         = 0x4
	taskTraced          = 0x8
)

// Numbers of system calls, and operations of futex, that are looked at closely.
const (
	sysFutex   = 202
	sysRestart = 219

	futexCommand = 0x7f // the rest are flags
	futexWait    = 0
	futexLockPI  = 6
	futexBitset  = 9
	futexRequeue = 11
	futexLockPI2 = 13
)

// kinds says what each system call is for; the others are RUN.
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

// stateOf classifies a sample whose frames say what it synchronises with.
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

// syscallName is the name of a system call, "" if it has none known.
func syscallName(nr int64) string {
	if nr < 0 || nr >= int64(len(syscallNames)) {
		return ""
	}
	return syscallNames[nr]
}

// syncKind says what a function does that sleeps in futex.
type syncKind uint8

const (
	syncNone syncKind = iota
	syncLock          // takes a lock
	syncWait          // waits for a condition, a semaphore, a thread
)

// Parts of the names of functions that sleep in futex. Where both are on the
// stack the inner one counts: a condition variable takes its mutex again.
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

// syncDepth is how far above the system call a lock's function may be.
const syncDepth = 16

// syncOf is what the innermost such function of a stack does. A user's function
// that is not one itself ends the search: what it was called by holds no lock
// that it waits for. Where a virtual machine parks a thread, it is the method that
// had it parked which knows what for.
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
