package java

import (
	"bytes"
	"endoscope/probes/process"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of a thread, by the virtual machine and the thread's
// stack.
type State uint8

// A thread in Locking waits for a lock that another thread holds.
const (
	Running State = iota
	Waiting
	Reading
	Writing
	Locking
)

// Frame is a call of a method.
type Frame struct {
	Method string // qualified by package and class
	Module string // java.base, or the source file; "" if unknown
	System bool   // in a module with a version: part of Java itself
}

// Thread is a Java thread at the time of a dump.
type Thread struct {
	Name   string
	TID    int // in our namespace; 0: unknown
	State  State
	Frames []Frame // innermost first
}

// Limits on the values accepted from a machine.
const (
	maxThreads = 1 << 17
	maxFrames  = 2048
	maxName    = 400
)

// Threads dumps all threads that execute Java. The machine stops for it; cost
// is the CPU time that its own threads used.
func (m *Machine) Threads() (ts []Thread, cost time.Duration, err error) {
	before := m.ownTime()
	text, err := m.ask("threaddump")
	if err != nil {
		return nil, 0, err
	}
	ts = Parse(text)
	if m.inner != m.pid {
		m.translate(ts)
	}
	if m.own == nil {
		for _, t := range ts {
			if len(t.Frames) == 0 && (t.Name == "VM Thread" || t.Name == "Attach Listener") {
				m.own = append(m.own, t.TID)
			}
		}
	} else {
		cost = m.ownTime() - before
	}
	return slices.DeleteFunc(ts, func(t Thread) bool { return len(t.Frames) == 0 }), cost, nil
}

// ownTime returns the CPU time of the threads that write dumps.
func (m *Machine) ownTime() time.Duration { return m.timeOf(m.own...) }

// timeOf returns the CPU time of threads.
func (m *Machine) timeOf(tids ...int) (sum time.Duration) {
	for _, tid := range tids {
		ns, _, _ := process.ThreadRuns(m.pid, tid) // 0 if it has ended
		sum += time.Duration(ns)
	}
	return sum
}

// translate replaces tids of a container's namespace by ours.
func (m *Machine) translate(ts []Thread) {
	ours := map[int]int{}
	tids, _ := process.Threads(m.pid) // none if it has ended
	for _, tid := range tids {
		status, err := process.ReadThread(m.pid, tid, "status")
		if err != nil {
			continue
		}
		_, line, _ := bytes.Cut(status, []byte("\nNSpid:"))
		line, _, _ = bytes.Cut(line, []byte{'\n'})
		numbers := bytes.Fields(line)
		if len(numbers) == 0 {
			continue
		}
		if inner, err := strconv.Atoi(string(numbers[len(numbers)-1])); err == nil {
			ours[inner] = tid
		}
	}
	for i := range ts {
		ts[i].TID = ours[ts[i].TID]
	}
}

// Parse parses a thread dump. Each thread begins with a line such as
//
//	"worker-0" #12 prio=5 os_prio=0 cpu=1.23ms elapsed=1.0s tid=0x7f nid=0x1f2 in Object.wait()  [0x7f]
//	   java.lang.Thread.State: WAITING (on object monitor)
//		at java.lang.Object.wait(java.base@17.0.15/Native Method)
//		- waiting on <0x71> (a java.util.LinkedList)
//		at app.Server.nextJob(Server.java:13)
//
// Threads internal to the machine have no frames.
func Parse(text []byte) (ts []Thread) {
	var t *Thread
	var state string
	finish := func() {
		if t != nil {
			t.State = stateOf(state, t.Frames)
		}
	}
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		switch {
		case len(line) > 0 && line[0] == '"':
			finish()
			if t = nil; len(ts) < maxThreads {
				ts = append(ts, threadOf(string(line)))
				t, state = &ts[len(ts)-1], ""
			}
		case t == nil:
		case bytes.HasPrefix(line, []byte("   java.lang.Thread.State: ")):
			state, _, _ = strings.Cut(string(line[len("   java.lang.Thread.State: "):]), " ")
		case bytes.HasPrefix(line, []byte("\tat ")) && len(t.Frames) < maxFrames:
			t.Frames = append(t.Frames, frameOf(string(line[4:min(len(line), maxName)])))
		}
	}
	finish()
	return ts
}

// threadOf parses a thread's first line. Its name may contain quotes.
func threadOf(line string) (t Thread) {
	end := strings.LastIndexByte(line, '"')
	t.Name = line[1:max(end, 1)]
	_, after, ok := strings.Cut(line[end+1:], " nid=")
	if !ok {
		return t
	}
	number, _, _ := strings.Cut(after, " ")
	n, err := strconv.ParseUint(number, 0, 31) // hexadecimal before JDK 19, decimal after
	if err == nil {
		t.TID = int(n)
	}
	return t
}

// frameOf parses what follows "at": a method and, in parentheses, its module
// and place. Classes of the application's loader are prefixed by app//.
func frameOf(text string) (f Frame) {
	method, place, _ := strings.Cut(text, "(")
	place = strings.TrimSuffix(place, ")")
	if i := strings.LastIndexByte(place, '/'); i >= 0 {
		origin := place[:i]
		place = place[i+1:]
		if module, _, versioned := strings.Cut(origin, "@"); versioned {
			f.Module, f.System = module, true
		}
	}
	f.Method = method
	if f.Module == "" {
		if file, _, ok := strings.Cut(place, ":"); ok {
			f.Module = file
		}
	}
	for _, prefix := range []string{"java.", "javax.", "jdk.", "sun.", "com.sun."} {
		f.System = f.System || strings.HasPrefix(method, prefix)
	}
	return f
}

// Methods in which threads that the machine considers running read, write, or
// wait for events; parts of the names, the innermost frames first.
var (
	waitMethods  = []string{"sun.nio.ch.EPoll.wait", "sun.nio.ch.WEPoll", "sun.nio.ch.PollSelector", "java.lang.ProcessHandleImpl.waitForProcessExit", "java.lang.ref.Reference.waitForReferencePendingList"}
	readMethods  = []string{".accept", ".read", ".receive", ".recv", "sun.nio.ch.Net.poll", "sun.nio.ch.NioSocketImpl.park"}
	writeMethods = []string{".write", ".send", ".connect", ".force", ".open0", ".close0"}
	ioClasses    = []string{"sun.nio.", "java.net.", "java.io.", "java.nio."}
	lockMethods  = []string{"java.util.concurrent.locks.ReentrantLock", "java.util.concurrent.locks.ReentrantReadWriteLock", "java.util.concurrent.locks.StampedLock"}
)

// ioDepth is the number of innermost frames searched for input and output.
const ioDepth = 6

func stateOf(state string, frames []Frame) State {
	switch state {
	case "BLOCKED":
		return Locking
	case "WAITING", "TIMED_WAITING":
		for _, f := range frames {
			if !f.System || Awaits(f.Method) {
				break
			}
			if Locks(f.Method) {
				return Locking
			}
		}
		return Waiting
	}
	for _, f := range frames[:min(len(frames), ioDepth)] {
		if !f.System {
			break
		}
		for _, m := range waitMethods {
			if strings.HasPrefix(f.Method, m) {
				return Waiting
			}
		}
	}
	for i, f := range frames[:min(len(frames), ioDepth)] {
		if !f.System || i == 0 && !hasPrefix(f.Method, ioClasses) {
			break
		}
		if !hasPrefix(f.Method, ioClasses) {
			continue
		}
		method := f.Method
		if contains(method, writeMethods) {
			return Writing
		}
		if contains(method, readMethods) && !strings.HasPrefix(method, "sun.nio.ch.Net.poll") && !strings.HasPrefix(method, "sun.nio.ch.NioSocketImpl.park") {
			return Reading
		}
	}
	return Running
}

// Locks reports whether a method acquires a lock of Java's library, for which
// it parks its thread.
func Locks(method string) bool { return hasPrefix(method, lockMethods) && !Awaits(method) }

// Awaits reports whether a method waits for a condition of such a lock.
func Awaits(method string) bool { return strings.HasSuffix(method, ".await") }

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func contains(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}
