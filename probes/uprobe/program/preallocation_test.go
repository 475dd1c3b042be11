package program

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
)

// Every hash table of the programs is preallocated, and no other map is: thread storage
// cannot be, and arrays always are.
func TestPreallocate(t *testing.T) {
	spec, err := bpf.LoadFunction()
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]uint32{}
	for name, m := range spec.Maps {
		was[name] = m.Flags
		m.MaxEntries = max(m.MaxEntries, 1<<18)
	}
	boundPreallocated(spec.Maps)
	for name, m := range spec.Maps {
		if m.MaxEntries < 1<<18 {
			t.Errorf("%s is bounded before it is preallocated", name)
		}
	}
	preallocate(spec.Maps)
	boundPreallocated(spec.Maps)
	tables := 0
	for name, m := range spec.Maps {
		if m.Type != ebpf.Hash {
			if m.Flags != was[name] || m.MaxEntries < 1<<18 {
				t.Errorf("%s, a %s, has been changed", name, m.Type)
			}
			continue
		}
		tables++
		if was[name]&unix.BPF_F_NO_PREALLOC == 0 {
			t.Errorf("%s is preallocated where it need not be", name)
		}
		if m.Flags&unix.BPF_F_NO_PREALLOC != 0 {
			t.Errorf("%s is not preallocated", name)
		}
		if size := m.MaxEntries * (hashOverhead + m.KeySize + m.ValueSize); size > maxPreallocated || size < maxPreallocated/4 {
			t.Errorf("%s takes %d bytes", name, size)
		}
	}
	if tables != 11 {
		t.Errorf("there are %d hash tables", tables)
	}
}
