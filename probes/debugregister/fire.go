package debugregister

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched is the word that is written, with what the watchpoint has counted.
var watched uint64

// attempts is how many writes are made: the last one tells of those before it, and the report of one
// may be lost (see Virtual).
const attempts = 4

// Fire reports whether a watchpoint on this thread counts writes to its memory. The kernel makes them:
// if it is not told which watchpoint an exception in its own code was for, it goes on (exc_debug_kernel
// in arch/x86/kernel/traps.c), and does not end this program. It is true where none can be set: the one
// that is needed says why.
var Fire = sync.OnceValue(func() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_BREAKPOINT,
		Size:    uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:    unix.PerfBitExcludeHv,
		Bp_type: 2, // HW_BREAKPOINT_W
		Ext1:    uint64(uintptr(unsafe.Pointer(&watched))),
		Ext2:    8,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	for range attempts { // each writes how many traps there were so far
		if n, err := unix.Read(fd, unsafe.Slice((*byte)(unsafe.Pointer(&watched)), 8)); err != nil || n != 8 {
			return true
		}
	}
	return watched > 0
})
