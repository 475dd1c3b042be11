package batch

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// InHugePages requests huge pages for a large, newly allocated table and returns it. A
// look-up in such a table misses the cache; with 4 KiB pages it would miss the TLB too. It
// is advice: if the kernel rejects it, nothing changes.
func InHugePages[T any](table []T) []T {
	size := len(table) * int(unsafe.Sizeof(*new(T)))
	if size < 2*hugePage {
		return table
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(table)))
	skip := int(-start & (hugePage - 1))
	whole := (size - skip) &^ (hugePage - 1)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), size)
	_ = unix.Madvise(bytes[skip:skip+whole], unix.MADV_HUGEPAGE)
	return table
}
