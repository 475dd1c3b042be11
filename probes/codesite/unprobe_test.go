package codesite

import (
	"bytes"
	"slices"
	"testing"
)

func TestUnprobe(t *testing.T) {
	nop5 := append(slices.Clone(fiveByteNop), 0x55, 0xc3)
	nop10 := append(slices.Clone(tenByteNop), 0x55, 0xc3)
	push := []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5}
	patch := func(b []byte, at int, with ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name      string
		want, got []byte
		at        int
		same      bool
	}{
		{"untouched", push, push, 4, true},
		{"breakpoint at the site", push, patch(push, 4, 0xcc), 4, true},
		{"breakpoint at the entry, of another tool", push, patch(push, 0, 0xcc), 4, true},
		{"breakpoint elsewhere: a debugger's, or data", push, patch(push, 6, 0xcc), 4, false},
		{"a call where there was no nop", push, patch(push, 0, 0xe8, 1, 2, 3, 4), 0, false},
		{"patched to jump away", push, patch(push, 0, 0xe9, 1, 2, 3, 4), 4, false},

		{"nop5: breakpoint", nop5, patch(nop5, 0, 0xcc), 0, true},
		{"nop5: displacement of the call written", nop5, patch(nop5, 0, 0xcc, 1, 2, 3, 4), 0, true},
		{"nop5: call", nop5, patch(nop5, 0, 0xe8, 1, 2, 3, 4), 0, true},
		{"nop5: patched to jump away", nop5, patch(nop5, 0, 0xe9, 1, 2, 3, 4), 0, false},

		{"nop10: breakpoint", nop10, patch(nop10, 0, 0xcc), 0, true},
		{"nop10: all but the first byte written", nop10, patch(nop10, 0, 0xcc, 0x8d, 0x64, 0x24, 0x80, 0xe8, 1, 2, 3, 4), 0, true},
		{"nop10: lea and call", nop10, patch(nop10, 0, 0x48, 0x8d, 0x64, 0x24, 0x80, 0xe8, 1, 2, 3, 4), 0, true},
		{"nop10: begin of the nop written again", nop10, patch(nop10, 0, 0xcc, 0x2e, 0x0f, 0x1f, 0x84, 0xe8, 1, 2, 3, 4), 0, true},
		{"nop10: removed, the call is left", nop10, patch(nop10, 5, 0xe8, 1, 2, 3, 4), 0, true},
		{"nop10: another instruction than the lea", nop10, patch(nop10, 0, 0x48, 0x8d, 0x64, 0x24, 0x40, 0xe8, 1, 2, 3, 4), 0, false},
		{"nop10: no call after the lea", nop10, patch(nop10, 0, 0x48, 0x8d, 0x64, 0x24, 0x80, 0xe9, 1, 2, 3, 4), 0, false},
		{"nop10: another operand", nop10, patch(nop10, 5, 0x80, 1, 2, 3, 4), 0, false},
		{"nop10: what follows is changed", nop10, patch(nop10, 10, 0xcc), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.Clone(c.got)
			Unprobe(got, c.want, 0)
			Unprobe(got, c.want, c.at)
			if same := bytes.Equal(got, c.want); same != c.same {
				t.Errorf("same: %v, want %v", same, c.same)
			}
		})
	}
}

// What removed probes leave is undone wherever it is; probes that are set are not.
func TestUnprobeNops(t *testing.T) {
	want := slices.Concat([]byte{0x90}, tenByteNop, tenByteNop, []byte{0x55}, tenByteNop)
	got := slices.Clone(want)
	call := []byte{0xe8, 1, 2, 3, 4}
	copy(got[1+5:], call)
	copy(got[11+5:], call)
	UnprobeNops(got, want)
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	set := append(slices.Clone(skipsRedZone), call...)
	copy(got[22:], set)
	UnprobeNops(got, want)
	if !bytes.Equal(got[22:], set) {
		t.Errorf("% x, want % x", got[22:], set)
	}
}
