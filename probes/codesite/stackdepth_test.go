package codesite

import (
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// The stack depth in the pclntab must agree with the effect of each function's
// instructions up to the first call or jump.
func TestGoDepthsAgreeWithInstructions(t *testing.T) {
	m := moduleAt(t, testenv.NeedProgram(t, "gofmt"))
	checked, moved := 0, 0
	for i, f := range m.All() {
		code, err := m.Image().Code(f.Addr, m.Extent(i))
		if err != nil || f.Lang != elf.Go || f.Mangled == "runtime.rt0_go" { // has no caller, and depth 0 throughout
			continue
		}
		want := int64(0)
		for pos := 0; pos < len(code); {
			got, known := m.GoDepth(f.Addr, f.Addr+uint64(pos))
			if !known {
				break
			}
			if got != want {
				t.Errorf("%s+%d: the table says %d, the instructions %d", f.Name, pos, got, want)
				break
			}
			checked++
			if got > 0 {
				moved++
			}
			in, err := decode(code[pos:])
			if err != nil || in.transfers() && !in.conditional() {
				break
			}
			e := in.effect()
			if in.conditional() {
				e = effect{spKnown: true}
			}
			if !e.spKnown {
				break
			}
			want -= e.sp
			pos += in.Len
		}
	}
	if checked < 10_000 || moved < 5_000 {
		t.Errorf("only %d places compared, %d of them in an open frame", checked, moved)
	}
}
