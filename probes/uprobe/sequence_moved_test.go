package uprobe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

const hugePage = 2 << 20

// moveMemory has the kernel move the memory at the addresses of a process, to huge pages and
// back to small ones, until stop is closed, and returns how often it did. Meanwhile the page
// tables have holes: the process waits where it touches one, and programs in the kernel
// cannot read.
func moveMemory(t testing.TB, pid int, addresses []uint64, stop <-chan struct{}) (moved int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer unix.Close(fd)
	advise := func(at, size uint64, advice int) bool {
		vec := [2]uint64{at, size}
		_, _, e := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&vec)), 1, uintptr(advice), 0, 0)
		return e == 0
	}
	for {
		for _, at := range addresses {
			select {
			case <-stop:
				return moved
			default:
			}
			if at &^= hugePage - 1; advise(at, hugePage, unix.MADV_COLLAPSE) {
				moved++
			}
			advise(at, 4096, unix.MADV_COLD) // divides the huge page
		}
	}
}

// A goroutine whose memory the kernel is moving cannot be read. A call that begins then is
// counted, and one that ends then has its LEAVE: no call is reported as abandoned.
func TestGoroutinesThatTheKernelMoves(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, build := range []struct {
		name    string
		compile func(testing.TB, string, ...string) string
		flags   []string
	}{
		{"plain", testenv.CompileGo, nil},
		{"threads whose goroutine is not to be found", testenv.CompileGoWithC, []string{"-ldflags=-s"}},
	} {
		t.Run(build.name, func(t *testing.T) {
			const goroutines, calls = 4, 2000
			target := build.compile(t, "testdata/gomoved", build.flags...)
			p := provider(t, Options{RingBytes: 64 << 20})
			r := run(t, target, fmt.Sprint(goroutines), fmt.Sprint(calls))
			var gs []uint64
			for range goroutines {
				g, err := strconv.ParseUint(r.line(), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				gs = append(gs, g)
			}
			r.awaitReady()
			slices.Sort(gs)
			gs = slices.CompactFunc(gs, func(a, b uint64) bool { return a/hugePage == b/hugePage })
			_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("main.spins"), append(sequenceColumns, "goroutine")...))
			stop, over := make(chan struct{}), make(chan int, 1)
			go func() { over <- moveMemory(t, r.cmd.Process.Pid, gs, stop) }()
			begun := time.Now()
			r.finish(success)
			took := time.Since(begun)
			close(stop)
			moved := <-over
			events := tally(got.wait(t).strings("event"))
			lost := int(got.lost["goroutine that could not be read"])
			t.Logf("moved %d times in %v; events %v, lost %v", moved, took, events, got.lost)
			if moved == 0 {
				testenv.Skip(t, "needs Linux 6.1 with huge pages: no memory was moved")
			}
			delete(events, decode.EventGap)
			entered := events[decode.EventEnter]
			if want := map[string]int{decode.EventEnter: entered, decode.EventLeave: entered}; !maps.Equal(want, events) {
				t.Errorf("events %v, want %v", events, want)
			}
			// Both events of a call count that is missing, where no call of its goroutine was
			// followed before: another one may have ended there.
			if missing := goroutines*calls - entered; lost < missing || lost > 2*missing {
				t.Errorf("%d calls are missing, %d lost", missing, lost)
			}
			if len(got.counts) > 0 {
				t.Errorf("counts %v", got.counts)
			}
		})
	}
}
