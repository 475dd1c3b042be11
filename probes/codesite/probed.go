package codesite

import "bytes"

// breakpoint is the byte that a uprobe writes over an instruction's first byte.
const breakpoint = 0xcc

const call32 = 0xe8 // opcode of a call, which 4 bytes of displacement follow

// Optimised probes (arch/x86/kernel/uprobes.c). Linux 6.18 replaces the 5-byte
// nop by a call. Later kernels replace a 10-byte nop instead: by an instruction
// that moves the stack pointer below the red zone, and a call.
var (
	tenByteNop   = []byte("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00")
	skipsRedZone = []byte("\x48\x8d\x64\x24\x80") // lea -0x80(%rsp),%rsp
)

// Unprobe undoes in got the changes that probes at offset at make, ours or
// another tool's. got is a process's copy of the code want of its file; any other
// difference was made by the program.
//
// Kernels replace the first byte last when they set an optimised probe, and first
// when they remove it, so a breakpoint may stand before bytes of either state.
func Unprobe(got, want []byte, at int) {
	g, w := got[at:], want[at:]
	switch {
	case bytes.HasPrefix(w, tenByteNop):
		unprobeTenByteNop(g)
	case g[0] == call32 && bytes.HasPrefix(w, fiveByteNop):
		copy(g, fiveByteNop)
	case g[0] == breakpoint:
		g[0] = w[0]
		if bytes.HasPrefix(w, fiveByteNop) && !bytes.Equal(g[1:5], w[1:5]) {
			copy(g, fiveByteNop) // the displacement of the call is written first
		}
	}
}

// unprobeTenByteNop restores a 10-byte nop.
func unprobeTenByteNop(g []byte) {
	half := len(skipsRedZone)
	begins := func(code []byte) bool {
		return bytes.Equal(g[:half], code[:half]) || g[0] == breakpoint && bytes.Equal(g[1:half], code[1:half])
	}
	called := g[half] == call32
	if begins(skipsRedZone) && called || begins(tenByteNop) && (called || bytes.Equal(g[half:len(tenByteNop)], tenByteNop[half:])) {
		copy(g, tenByteNop)
	}
}

// UnprobeNops undoes in got what removed probes leave: the second half of a
// 10-byte nop stays a call, which is then an operand of the nop.
func UnprobeNops(got, want []byte) {
	half := len(skipsRedZone)
	for at := 0; ; at += len(tenByteNop) {
		next := bytes.Index(want[at:], tenByteNop)
		if next < 0 {
			return
		}
		at += next
		if g := got[at:]; bytes.HasPrefix(g, tenByteNop[:half]) && g[half] == call32 {
			copy(g, tenByteNop)
		}
	}
}
