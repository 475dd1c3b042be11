package debugregister

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched is the word that is written.
var watched atomic.Uint64

// Fire reports whether a watchpoint on this thread counts its own writes. It is true where none can be
// set: the one that is needed says why.
var Fire = sync.OnceValue(func() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_BREAKPOINT,
		Size:    uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:    unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Bp_type: 2, // HW_BREAKPOINT_W
		Ext1:    uint64(uintptr(unsafe.Pointer(&watched))),
		Ext2:    8,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	watched.Add(1)
	var count [8]byte
	if n, err := unix.Read(fd, count[:]); err != nil || n != len(count) {
		return true
	}
	return binary.NativeEndian.Uint64(count[:]) > 0
})
