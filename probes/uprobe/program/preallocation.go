package program

import (
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// maxPreallocated bounds the memory of a preallocated hash table. Other tables are
// larger, and allocate what their entries need.
const maxPreallocated = 8 << 20

// preallocate makes hash tables allocate their memory on creation. Before Linux 6.1 a
// program that adds an entry would allocate it where that may deadlock, and the kernel
// warns of such programs in its log (check_map_prog_compatibility in
// kernel/bpf/verifier.c). Allocation in other kinds of maps is safe.
func preallocate(maps map[string]*ebpf.MapSpec) {
	for _, m := range maps {
		if m.Type == ebpf.Hash {
			m.Flags &^= unix.BPF_F_NO_PREALLOC
		}
	}
}

// boundPreallocated limits the sizes of preallocated tables once they are known. Entries
// that find no room are counted, as in a large table.
func boundPreallocated(maps map[string]*ebpf.MapSpec) {
	for _, m := range maps {
		if m.Type == ebpf.Hash && m.Flags&unix.BPF_F_NO_PREALLOC == 0 {
			m.MaxEntries = min(m.MaxEntries, uint32(preallocated(int(m.KeySize), int(m.ValueSize))))
		}
	}
}

// preallocated returns how many entries a preallocated table can have.
func preallocated(keyBytes, valueBytes int) int {
	return maxPreallocated / (hashOverhead + keyBytes + valueBytes)
}
