package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReadMemory reads the memory of a process from an address into b. It returns the
// number of bytes read: fewer than requested if what follows is not mapped, 0 if
// the process has ended or may not be read.
func ReadMemory(pid int, b []byte, addr uint64) int {
	if len(b) == 0 {
		return 0
	}
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: unsafe.SliceData(b), Len: uint64(len(b))}},
		[]unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err != nil {
		return 0
	}
	return n
}
