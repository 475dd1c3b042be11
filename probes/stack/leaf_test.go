package stack

import (
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// The lengths of indirect calls equal those of a disassembler.
func TestCallLength(t *testing.T) {
	for modrm := range 256 {
		if modrm>>3&7 != 2 {
			continue
		}
		for sib := range 256 {
			code := []byte{0xff, byte(modrm), byte(sib), 0, 0, 0, 0, 0, 0, 0}
			in, err := x86asm.Decode(code, 64)
			if err != nil || in.Op != x86asm.CALL {
				t.Fatalf("% x is no call: %v", code, err)
			}
			if got := callLength(code[1:]); got != in.Len {
				t.Errorf("% x has %d bytes, not %d", code[:in.Len], in.Len, got)
			}
		}
	}
}
