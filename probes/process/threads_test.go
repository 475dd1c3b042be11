package process

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

func TestThreadsOfAProcess(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tids, err := Threads(os.Getpid())
	if err != nil || !slices.Contains(tids, unix.Gettid()) || !slices.Contains(tids, os.Getpid()) {
		t.Fatalf("threads of this process: %v, %v; this one is %d", tids, err, unix.Gettid())
	}
	var s Stat
	if !ReadThreadStat(os.Getpid(), unix.Gettid(), &s) || s.PID != unix.Gettid() {
		t.Errorf("stat of thread %d: %+v", unix.Gettid(), s)
	}
	before, runs, ok1 := ThreadRuns(os.Getpid(), unix.Gettid())
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	if !ok1 || before <= 0 || before > now.Nano() {
		t.Errorf("CPU time of this thread: %d, %v; its clock says %d", before, ok1, now.Nano())
	}
	if runs < 1 {
		t.Errorf("this thread ran %d times", runs)
	}
	testenv.Until(t, "this thread has left its CPU and runs again", func() bool {
		_, more, ok := ThreadRuns(os.Getpid(), unix.Gettid())
		return ok && more > runs
	})
	const none = 1 << 22 // PID_MAX_LIMIT: no thread has this number
	if _, err := Threads(none); err == nil {
		t.Error("threads of no process")
	}
	if _, _, ok := ThreadRuns(none, none); ok {
		t.Error("CPU time of no thread")
	}
}

func TestReadMemoryStopsAtUnmappedPages(t *testing.T) {
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	m[page-1] = 7
	if err := unix.Mprotect(m[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	end := uint64(uintptr(unsafe.Pointer(&m[0]))) + uint64(page)
	var b [16]byte
	if n := ReadMemory(os.Getpid(), b[:1], end-1); n != 1 || b[0] != 7 {
		t.Errorf("the last mapped byte: %d bytes, %d", n, b[0])
	}
	if n := ReadMemory(os.Getpid(), b[:], end-8); n != 8 && n != 0 { // the kernel may refuse all
		t.Errorf("%d bytes where 8 are mapped", n)
	}
	if n := ReadMemory(os.Getpid(), b[:], end); n != 0 {
		t.Errorf("%d bytes of an unmapped page", n)
	}
	if n := ReadMemory(os.Getpid(), nil, end-1); n != 0 {
		t.Errorf("%d bytes into nothing", n)
	}
}
