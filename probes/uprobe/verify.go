package uprobe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"endoscope/probes/process"
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
	memory  *os.File // /proc/PID/mem
	mapping process.Mapping
	file    *os.File
	got     []byte
	want    []byte
}

func openText(pl place, file *os.File) (*text, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pl.process.PID))
	if err != nil {
		return nil, err
	}
	return &text{memory: mem, mapping: pl.mapping, file: file}, nil
}

func (t *text) close() { t.memory.Close() }

// check says why the function that begins at file offset entry cannot be
// probed at site, an instruction of n bytes; "": it can.
func (t *text) check(entry, site uint64, n int) string {
	m := t.mapping
	if entry < m.Offset || site+uint64(n) > m.Offset+(m.End-m.Start) {
		return "it is not in the part of " + filepath.Base(m.Path) + " that the process has mapped"
	}
	size := int(site-entry) + n
	if cap(t.got) < size {
		t.got, t.want = make([]byte, size), make([]byte, size)
	}
	got, want := t.got[:size], t.want[:size]
	if _, err := t.file.ReadAt(want, int64(entry)); err != nil {
		return "its code cannot be read from the file"
	}
	if _, err := t.memory.ReadAt(got, int64(m.Start+(entry-m.Offset))); err != nil {
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
