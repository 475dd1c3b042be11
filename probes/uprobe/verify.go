package uprobe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/procfs"
)

// breakpoint is what a uprobe puts in the place of an instruction's first byte.
const breakpoint = 0xCC

// callInsn is what Linux 6.18 puts in the place of a 5-byte nop.
const callInsn = 0xE8

var nop5 = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}

// text compares a process's code with the file it was mapped from. A probe
// restores the file's bytes when it goes: in code that patched itself it would
// run, or leave behind, what the program no longer means.
type text struct {
	memory *os.File // /proc/PID/mem
	file   *os.File
	name   string
	parts  []*procfs.ProcMap // of the file, executable
	got    []byte
	want   []byte
}

func openText(pl place, file *os.File) (*text, error) {
	proc, err := procfs.NewProc(pl.process.PID)
	if err != nil {
		return nil, err
	}
	maps, err := proc.ProcMaps()
	if err != nil {
		return nil, err
	}
	t := &text{file: file, name: filepath.Base(pl.mapping.Path)}
	for _, m := range maps {
		if m.Perms.Execute && m.Dev == pl.mapping.Dev && m.Inode == pl.mapping.Inode {
			t.parts = append(t.parts, m)
		}
	}
	if t.memory, err = os.Open(fmt.Sprintf("/proc/%d/mem", pl.process.PID)); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *text) close() { t.memory.Close() }

// check says why the function that begins at file offset entry cannot be
// probed at site, an instruction of n bytes; "": it can.
func (t *text) check(entry, site uint64, n int) string {
	mapped := false
	for _, m := range t.parts {
		begin, size := uint64(m.Offset), uint64(m.EndAddr-m.StartAddr)
		if entry < begin || site+uint64(n) > begin+size {
			continue
		}
		mapped = true
		// Attaching would succeed, and the probe never fire (valid_vma in
		// kernel/events/uprobes.c).
		if m.Perms.Write {
			return "the process has made its code writable, where the kernel sets no probes"
		}
		if reason := t.compare(uint64(m.StartAddr)+(entry-begin), entry, site, n); reason != "" {
			return reason
		}
	}
	if !mapped {
		return "it is not in the part of " + t.name + " that the process has mapped"
	}
	return ""
}

// compare is check for one mapping, in which the function begins at addr.
func (t *text) compare(addr, entry, site uint64, n int) string {
	size := int(site-entry) + n
	if cap(t.got) < size {
		t.got, t.want = make([]byte, size), make([]byte, size)
	}
	got, want := t.got[:size], t.want[:size]
	if _, err := t.file.ReadAt(want, int64(entry)); err != nil {
		return "its code cannot be read from the file"
	}
	if _, err := t.memory.ReadAt(got, int64(addr)); err != nil {
		return "its code cannot be read from the process"
	}
	restore(got, want, 0)
	restore(got, want, int(site-entry))
	if !bytes.Equal(got, want) {
		return "the process has changed its code"
	}
	return ""
}

// restore undoes in got, code that should be want, what a uprobe at offset at
// has changed, ours or another tool's. Any other difference is the program's.
func restore(got, want []byte, at int) {
	switch {
	case got[at] == breakpoint:
		got[at] = want[at]
	case got[at] == callInsn && bytes.HasPrefix(want[at:], nop5):
		copy(got[at:], nop5)
	}
}
