package variable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
)

// guard keeps a watched process alive on a virtual machine (debugregister.Virtual): it traces the
// process, and takes the SIGTRAP of a watchpoint whose report was lost. Other signals are passed on. A
// thread that gets a signal stops for that, some 50 us; nothing else stops.
type guard struct {
	pid     int
	lost    atomic.Uint64 // signals that were taken
	threads map[int]bool  // that are traced; only the goroutine uses it
	users   int           // guarded by guards.mu
	left    chan struct{} // of one place: there may be no user
	ended   chan struct{}
}

// guards are those of this process. Only one thread can trace another.
var guards struct {
	mu sync.Mutex
	of map[int]*guard
}

const (
	// listings is how often threads are listed at most, until no new one appears.
	listings = 20
	// looked is how often ended threads are collected. A process ends, or executes another program,
	// only when its threads are.
	looked = 20 * time.Millisecond
	// fewThreads are also collected whenever something has happened.
	fewThreads = 64
	// grace is how long a thread may take to stop for the signal of a watchpoint that is gone.
	grace = 20 * time.Millisecond
)

// guardOf returns the guard of a process, with one more user. It is an error if something else
// traces the process: a debugger, the launcher of a program that is held, or the guard before that lets
// go now.
func guardOf(pid int) (*guard, error) {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	g := guards.of[pid]
	if g == nil {
		g = &guard{pid: pid, threads: map[int]bool{}, left: make(chan struct{}, 1), ended: make(chan struct{})}
		began := make(chan error)
		go apart(func() { g.run(began) })
		if err := <-began; err != nil {
			return nil, err
		}
		if guards.of == nil {
			guards.of = map[int]*guard{}
		}
		guards.of[pid] = g
	}
	g.users++
	return g, nil
}

// release has one user less, whose watchpoints are gone. Without any a guard ends soon.
func (g *guard) release() {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	if g.users--; g.users == 0 {
		select {
		case g.left <- struct{}{}:
		default:
		}
	}
}

// leave ends a guard that has no user, or whose process has ended.
func (g *guard) leave(over bool) bool {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	if g.users > 0 && !over {
		return false
	}
	if guards.of[g.pid] == g {
		delete(guards.of, g.pid)
	}
	return true
}

// apart calls run in a thread that ends with it. The main thread of a program does not
// (runtime.LockOSThread).
func apart(run func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		run()
		return
	}
	elsewhere := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(elsewhere)
		run()
	}()
	<-elsewhere
	runtime.UnlockOSThread()
}

// run traces the process from a thread of its own. When that ends the kernel lets go of the process
// without a stop (kernel/ptrace.c, exit_ptrace).
func (g *guard) run(began chan<- error) {
	defer close(g.ended)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	err := g.seize()
	began <- err
	if err != nil {
		return
	}
	tick := time.NewTicker(looked)
	defer tick.Stop()
	var last <-chan time.Time
	for listed := false; ; {
		g.serve()
		if listed || len(g.threads) <= fewThreads {
			g.collect()
		}
		if _, runs := process.Lookup(g.pid); !runs && g.leave(true) {
			return
		}
		listed = false
		select {
		case <-children:
		case <-tick.C:
			g.list() // one that was killed before it stopped for the first time
			listed = true
		case <-g.left:
			last = time.After(grace)
		case <-last:
			if g.serve(); g.leave(false) {
				return
			}
		}
	}
}

// list notes all threads.
func (g *guard) list() (tids []int) {
	entries, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(g.pid), "task"))
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil && !g.threads[tid] {
			g.threads[tid] = true
			tids = append(tids, tid)
		}
	}
	return tids
}

// seize traces all threads. Those that they create later are traced by themselves.
func (g *guard) seize() error {
	for range listings {
		fresh := g.list()
		if len(fresh) == 0 {
			break
		}
		for _, tid := range fresh {
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, unix.PTRACE_O_TRACECLONE, 0, 0)
			if errno == 0 || errno == unix.ESRCH {
				continue
			}
			if tracer, runs := tracerOf(tid); runs && tracer != unix.Gettid() { // else its creator was traced
				return fmt.Errorf("tracing thread %d: %w", tid, errno)
			}
		}
		g.serve()
	}
	if len(g.threads) == 0 {
		return unix.ESRCH
	}
	return nil
}

// tracerOf returns the thread that traces a thread, 0 if none does, and whether the thread runs.
func tracerOf(tid int) (tracer int, runs bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	field := func(name string) string {
		_, after, _ := bytes.Cut(text, []byte("\n"+name+":\t"))
		line, _, _ := bytes.Cut(after, []byte("\n"))
		return string(line)
	}
	tracer, _ = strconv.Atoi(field("TracerPid"))
	state := field("State")
	return tracer, err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// childInfo is the part of siginfo_t that waitid(2) sets.
type childInfo struct {
	_      [2]int32
	code   int32
	_      int32
	pid    int32
	_      uint32
	status int32
	_      [100]byte
}

// next returns what has happened to a thread; false: nothing.
func next(kind, id, states int) (of childInfo, happened bool, err error) {
	for {
		err = unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&of)), states|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return of, err == nil && of.pid != 0, err
		}
	}
}

// serve lets go on what has stopped.
func (g *guard) serve() {
	for {
		of, happened, _ := next(unix.P_ALL, 0, unix.WSTOPPED)
		if !happened {
			return
		}
		if g.resume(&of) { // else it is a child of this thread that is not traced
			g.threads[int(of.pid)] = true
		}
	}
}

// collect lets threads end, but not the first one: that is its parent's. A thread may also have
// stopped: the kernel says so to who traces it, whatever is asked for (kernel/exit.c,
// wait_task_stopped).
func (g *guard) collect() {
	for tid := range g.threads {
		if tid == g.pid {
			continue
		}
		of, happened, err := next(unix.P_PID, tid, unix.WEXITED)
		switch {
		case happened && of.code >= 4: // CLD_TRAPPED, CLD_STOPPED
			g.resume(&of)
		case happened, err == unix.ECHILD:
			delete(g.threads, tid)
		}
	}
}

// resume lets a thread go on that has stopped for a signal or an event. It returns false if the
// thread is not traced here.
func (g *guard) resume(of *childInfo) bool {
	const (
		eventStop = 128 // PTRACE_EVENT_STOP
		listen    = 0x4208
	)
	tid, s, event := int(of.pid), unix.Signal(of.status&0xff), of.status>>8
	switch {
	case event == eventStop && (s == unix.SIGSTOP || s == unix.SIGTSTP || s == unix.SIGTTIN || s == unix.SIGTTOU):
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, listen, uintptr(tid), 0, 0, 0, 0) // it remains stopped
		return errno == 0
	case event != 0:
		s = 0
	case s == unix.SIGTRAP && isLost(tid):
		g.lost.Add(1)
		s = 0
	}
	return unix.PtraceCont(tid, int(s)) == nil
}

// isLost reports whether the SIGTRAP for which a thread has stopped is that of an exception that no
// debug register explains, and that is not of INT1. The program counter is after INT1, or at it: a
// hypervisor on an AMD processor may not advance it, and the signal's handler has to.
func isLost(tid int) bool {
	const (
		trapBreakpoint = 1    // TRAP_BRKPT; INT3 has SI_KERNEL
		int1           = 0xf1 // the instruction
		getSiginfo     = 0x4202
	)
	var info [128]byte
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSiginfo, uintptr(tid), 0, uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		return false
	}
	var regs unix.PtraceRegs
	if binary.NativeEndian.Uint32(info[8:]) != trapBreakpoint || unix.PtraceGetRegs(tid, &regs) != nil {
		return false
	}
	isINT1 := func(at uint64) bool {
		var b [1]byte
		n, err := unix.PtracePeekText(tid, uintptr(at), b[:])
		return err == nil && n == 1 && b[0] == int1
	}
	return !isINT1(regs.PC()-1) && !isINT1(regs.PC())
}
