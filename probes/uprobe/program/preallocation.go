package program

import (
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// maxPreallocated is how much memory a hash table may take that has it all from
// the beginning. Elsewhere tables are larger, and take what their entries need.
const maxPreallocated = 8 << 20

// preallocate gives hash tables their memory when they are made. Before Linux
// 6.1 a program that adds an entry would allocate it where that may deadlock,
// and the kernel warns of such programs in its log (check_map_prog_compatibility
// in kernel/bpf/verifier.c). Other kinds of maps allocate what is safe.
func preallocate(maps map[string]*ebpf.MapSpec) {
	for _, m := range maps {
		if m.Type == ebpf.Hash {
			m.Flags &^= unix.BPF_F_NO_PREALLOC
		}
	}
}

// boundPreallocated bounds tables that were preallocated once their sizes are
// known. What finds no room in them is counted, as in a large table.
func boundPreallocated(maps map[string]*ebpf.MapSpec) {
	for _, m := range maps {
		if m.Type == ebpf.Hash && m.Flags&unix.BPF_F_NO_PREALLOC == 0 {
			m.MaxEntries = min(m.MaxEntries, uint32(preallocated(int(m.KeySize), int(m.ValueSize))))
		}
	}
}

// preallocated is how many entries a table can have that is preallocated.
func preallocated(keyBytes, valueBytes int) int {
	return maxPreallocated / (hashOverhead + keyBytes + valueBytes)
}
