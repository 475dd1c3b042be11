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
	// looked is how often ends are looked for at least.
	looked = 100 * time.Millisecond
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
	for {
		g.serve()
		if _, runs := process.Lookup(g.pid); !runs && g.leave(true) {
			return
		}
		select {
		case <-children:
		case <-tick.C:
		case <-g.left:
			last = time.After(grace)
		case <-last:
			if g.serve(); g.leave(false) {
				return
			}
		}
	}
}

// seize traces all threads. Those that they create later are traced by themselves.
func (g *guard) seize() error {
	for range listings {
		entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(g.pid), "task"))
		if err != nil {
			return fmt.Errorf("tracing process %d: %w", g.pid, err)
		}
		fresh := false
		for _, e := range entries {
			tid, _ := strconv.Atoi(e.Name())
			if g.threads[tid] {
				continue
			}
			fresh = true
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, unix.PTRACE_O_TRACECLONE, 0, 0)
			switch {
			case errno == 0:
				g.threads[tid] = true
			case errno == unix.EPERM && tracerOf(tid) == unix.Gettid():
				g.threads[tid] = true // its creator was traced
			case errno != unix.ESRCH: // it has not ended
				return fmt.Errorf("tracing thread %d: %w", tid, errno)
			}
		}
		if !fresh {
			break
		}
		g.serve()
	}
	return nil
}

// tracerOf returns the thread that traces a thread; 0: none does.
func tracerOf(tid int) (tracer int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, after, _ := bytes.Cut(text, []byte("\nTracerPid:\t"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	tracer, _ = strconv.Atoi(string(line))
	return tracer
}

// childInfo is the part of siginfo_t that waitid(2) sets.
type childInfo struct {
	_      [4]int32
	pid    int32
	_      uint32
	status int32
	_      [100]byte
}

// wait returns the next thread in a state; 0: there is none.
func wait(kind, id, states int) (tid, status int) {
	var info childInfo
	for {
		err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), states|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, 0
		}
		return int(info.pid), int(info.status)
	}
}

// serve lets go on what has stopped, and lets threads end.
func (g *guard) serve() {
	for {
		tid, status := wait(unix.P_ALL, 0, unix.WSTOPPED)
		if tid == 0 {
			break
		}
		g.threads[tid] = true
		g.resume(tid, unix.Signal(status&0xff), status>>8)
	}
	for tid := range g.threads {
		if tid == g.pid { // it is collected by its parent
			continue
		}
		if of, _ := wait(unix.P_PID, tid, unix.WEXITED); of != 0 {
			delete(g.threads, tid)
		}
	}
}

// resume lets a thread go on that has stopped for a signal or an event.
func (g *guard) resume(tid int, s unix.Signal, event int) {
	const (
		eventStop = 128 // PTRACE_EVENT_STOP
		listen    = 0x4208
	)
	switch {
	case event == eventStop && (s == unix.SIGSTOP || s == unix.SIGTSTP || s == unix.SIGTTIN || s == unix.SIGTTOU):
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, listen, uintptr(tid), 0, 0, 0, 0) // it remains stopped
		return
	case event != 0:
		s = 0
	case s == unix.SIGTRAP && isLost(tid):
		g.lost.Add(1)
		s = 0
	}
	_ = unix.PtraceCont(tid, int(s))
}

// isLost reports whether the SIGTRAP for which a thread has stopped is that of an exception that no
// debug register explains, and the thread has not executed INT1.
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
	var before [1]byte
	n, err := unix.PtracePeekText(tid, uintptr(regs.PC()-1), before[:])
	return err != nil || n != 1 || before[0] != int1
}
