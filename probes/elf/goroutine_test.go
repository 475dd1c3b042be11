package elf

import (
	"os"
	"testing"

	"endoscope/probes/testenv"
)

// A thread's goroutine lies before the thread-local data of C, or its place is
// unknown; Go's own instructions show where it is, `mov %fs:-16,%r14`.
func TestGoSlot(t *testing.T) {
	testenv.Long(t)
	const target = "../uprobe/testdata/gosequence"
	for _, c := range []struct {
		name string
		path func() string
		own  bool // Go's is at the end
		none bool
	}{
		{name: "plain", path: func() string { return testenv.CompileGo(t, target) }, own: true},
		{name: "stripped", path: func() string { return testenv.CompileGo(t, target, "-ldflags=-s") }, own: true},
		{name: "with C", path: func() string { return testenv.CompileGoWithC(t, target) }},
		{name: "with C, stripped", path: func() string { return testenv.CompileGoWithC(t, target, "-ldflags=-s") }, none: true},
		{name: "library", path: func() string { return testenv.CompileGoWithC(t, target, "-buildmode=c-shared") }, none: true},
	} {
		f, err := os.Open(c.path())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := Open(f, "target")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		switch at := m.GoSlot(); {
		case c.none != (at == 0), c.own != (at == ownSlot), !c.none && m.image.readsSlot(at) == 0:
			t.Errorf("%s: at %d, which %d instructions read", c.name, at, m.image.readsSlot(at))
		}
	}
}

// readsSlot counts the instructions that load r14 from fs and an offset.
func (im *Image) readsSlot(offset int64) (n int) {
	want := string([]byte{0x64, 0x4c, 0x8b, 0x34, 0x25, byte(offset), byte(offset >> 8), 0xff, 0xff})
	for _, s := range im.Exec {
		code, err := im.bytes(&s, s.Start, s.End-s.Start)
		if err != nil {
			return 0
		}
		for i := range len(code) - len(want) {
			if string(code[i:i+len(want)]) == want {
				n++
			}
		}
	}
	return n
}
